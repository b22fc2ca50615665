"""What cuts cost, from packets sent and answered."""

from __future__ import annotations

from nearmetal.lab.failover import Change, document, effects

TIMES = [n / 10 for n in range(100)]


def answered(*lost: tuple[float, float]) -> list[float | None]:
    """Replies to TIMES, except to those sent in the given spans."""
    return [None if any(a <= t < b for a, b in lost) else t + 0.01 for t in TIMES]


def test_lost_packets_belong_to_the_change_before_them() -> None:
    cut, restored = Change(2.0, "node1", "f0", False), Change(6.0, "node1", "f0", True)
    found = effects(TIMES, answered((2.1, 2.5), (6.0, 6.1)), [cut, restored])
    assert [(e.sent, e.lost, e.outage_ms) for e in found] == [(40, 4, 400.0), (40, 1, 100.0)]


def test_nothing_lost_is_no_outage() -> None:
    (found,) = effects(TIMES, answered(), [Change(2.0, "node1", "f0", False)])
    assert (found.lost, found.outage_ms) == (0, 0.0)


def test_traffic_that_never_came_back_has_no_length() -> None:
    (found,) = effects(TIMES, answered((3.0, 99.0)), [Change(2.95, "node1", "f0", False)])
    assert (found.lost, found.outage_ms) == (70, None)


def test_losses_apart_count_from_the_first_to_the_last() -> None:
    (found,) = effects(TIMES, answered((3.0, 3.1), (4.0, 4.1)), [Change(2.0, "node1", "f0", False)])
    assert (found.lost, found.outage_ms) == (2, 1100.0)


def test_the_document_counts_losses_before_the_first_change_too() -> None:
    data = {"sent": TIMES, "back": answered((0.0, 0.1))}
    kept = document("node1", "node2", "10.77.0.2", data, [Change(2.0, "node1", "f0", False)])
    assert kept["lost"] == 1 and kept["effects"][0]["lost"] == 0
    assert kept["effects"][0]["change"] == {"at": 2.0, "node": "node1", "card": "f0", "up": False}
