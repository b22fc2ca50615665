from __future__ import annotations

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils import cpulist
from hypothesis import given
from hypothesis import strategies as st

SETS = st.frozensets(st.integers(0, 400))


@given(SETS)
def test_list_round_trip(cpus: frozenset[int]) -> None:
    text = cpulist.format(cpus)
    assert cpulist.parse(text) == cpus
    assert cpulist.format(cpulist.parse(text)) == text


@given(SETS)
def test_map_round_trip(cpus: frozenset[int]) -> None:
    assert cpulist.parse_map(cpulist.format_map(cpus)) == cpus


@given(SETS)
def test_list_is_shortest_and_in_order(cpus: frozenset[int]) -> None:
    items = [tuple(map(int, item.split("-"))) for item in cpulist.format(cpus).split(",") if item]
    assert all(one[-1] + 1 < two[0] for one, two in zip(items, items[1:], strict=False))
    assert all(len(item) == 1 or item[0] < item[1] for item in items)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("", set()), (" \n", set()), ("0", {0}), ("0-3,8\n", {0, 1, 2, 3, 8}), ("3-3", {3}), ("0, 24", {0, 24}),
        ("0-15:2/4", {0, 1, 4, 5, 8, 9, 12, 13}), ("8,0-1,0", {0, 1, 8}), ("0-1\n2", {0, 1, 2}),
    ],
)  # fmt: skip
def test_what_the_kernel_writes(text: str, cpus: set[int]) -> None:
    assert cpulist.parse(text) == cpus


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("0-", "'0-'"), ("a", "'a'"), ("3-1", "backwards"), ("-1", "'-1'"), ("0-3:2", "FIRST-LAST:USED/GROUP"),
        ("99999", "beyond"), ("0-99999999999999", "beyond"), ("1.5", "'1.5'"), ("0x3", "'0x3'"), ("²", "'²'"),
        ("0-7:3/2", "FIRST-LAST"), ("5:1/2", "FIRST-LAST"),
    ],
)  # fmt: skip
def test_bad_lists_are_named(text: str, word: str) -> None:
    with pytest.raises(ValueError, match="cpulist") as err:
        cpulist.parse(text)
    assert word in str(err.value)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("ff", set(range(8))), ("00000000,00000101", {0, 8}), ("1,00000000", {32}), ("0", set()), ("", set())],
)
def test_maps(text: str, cpus: set[int]) -> None:
    assert cpulist.parse_map(text) == cpus


@pytest.mark.parametrize("text", ["g", "-1", "1,123456789", "0,zz"])
def test_bad_maps(text: str) -> None:
    with pytest.raises(ValueError, match="CPU map"):
        cpulist.parse_map(text)


def test_negative_cpus_are_refused() -> None:
    for function in (cpulist.format, cpulist.format_map):
        with pytest.raises(ValueError, match="negative"):
            function([-1])
