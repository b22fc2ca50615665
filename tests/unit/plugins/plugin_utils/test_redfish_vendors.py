"""Reading and setting BIOS values on the BMCs of all vendors, as the test server has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils import bios
from ansible_collections.nearmetal.rack.plugins.plugin_utils import redfish, settling
from ansible_collections.nearmetal.rack.plugins.plugin_utils.redfish import Access, Bmc, BmcError, jobs

from nearmetal.bmc.machine import Machine
from nearmetal.bmc.server import BmcServer

VENDORS = ("dell", "hpe", "lenovo", "supermicro", "nvidia_dgx", "nvidia_grace")
DEFAULTS = {"settings": {}, "preset": "", "attributes": {}, "strict": False, "foreign_pending": "keep", "job_timeout": 30}
WORD = {"nvidia_grace": "acs"}
"""What each vendor is asked to toggle; SMT where nothing else is named (Grace has none)."""


@pytest.fixture(params=VENDORS)
def server(request: pytest.FixtureRequest) -> Iterator[BmcServer]:
    with BmcServer(Machine.made_up(request.param), tls=False) as made:
        yield made


@pytest.fixture
def dell() -> Iterator[BmcServer]:
    with BmcServer(Machine.made_up("dell"), tls=False) as made:
        yield made


@pytest.fixture
def hpe() -> Iterator[BmcServer]:
    with BmcServer(Machine.made_up("hpe"), tls=False) as made:
        yield made


def options(server: BmcServer, **more: Any) -> dict[str, Any]:
    return {**DEFAULTS, "baseuri": server.url, "username": "admin", "password": "admin", "timeout": 5, **more}


def settle(server: BmcServer, check: bool = False, **more: Any) -> dict[str, Any]:
    with Bmc(Access(server.url, "admin", "admin", timeout=5.0), sleep=lambda s: None) as bmc:
        return settling.settle(bmc, options(server, **more), check)


def read(server: BmcServer, **more: Any) -> dict[str, Any]:
    return redfish.read_bmc(options(server, **more), bios.needs_registry, sleep=lambda s: None)


def patches(server: BmcServer) -> int:
    return sum(1 for method, _path, status in server.requests if method == "PATCH" and status < 400)


def word_of(server: BmcServer) -> dict[str, Any]:
    """A word and the value that it does not have."""
    word = WORD.get(server.machine.vendor, "smt")
    for value in (False, True):
        asked = options(server, settings={word: value})
        if bios.compare(asked, read(server, settings={word: value})).requested:
            server.requests.clear()
            return {word: value}
    raise AssertionError(f"{word} is not there")


def test_read(server: BmcServer) -> None:
    document = read(server)
    assert document["error"] == "" and document["power_state"] == "On"
    assert bios.platform(document) == server.machine.vendor
    assert document["bios"]["current"] == server.machine.shown()
    assert document["registry"] is None, "nothing is to be submitted"
    assert server.service.sessions == 0
    assert len(server.requests) <= 9


def test_intent_then_pending_then_in_force(server: BmcServer) -> None:
    asked = word_of(server)
    checked = settle(server, check=True, settings=asked)
    assert checked["changed"] and checked["requested"] and not patches(server)
    done = settle(server, settings=asked)
    assert done["changed"] and done["requested"] == checked["requested"], done
    assert done["pending"] == done["requested"] and done["reset_required"]
    assert server.machine.waiting == done["requested"] and patches(server) == 1
    assert done["diff"][0]["before"] != done["diff"][0]["after"]
    again = settle(server, settings=asked)
    assert not again["changed"] and again["reset_required"] and patches(server) == 1
    server.machine.boot_up()
    after = settle(server, settings=asked)
    assert not after["changed"] and not after["reset_required"] and not after["pending"] and patches(server) == 1
    assert server.service.sessions == 0


def test_stale_etag(server: BmcServer) -> None:
    asked = word_of(server)
    server.faults.stale_etag = True
    assert settle(server, settings=asked)["changed"]


def test_foreign_values(server: BmcServer) -> None:
    values, entry = server.machine.current, server.machine.entry
    name = next(n for n, v in values.items() if v in ("Enabled", "Disabled") and not entry(n).get("ReadOnly"))
    other = "Disabled" if server.machine.current[name] == "Enabled" else "Enabled"
    server.machine.submit({name: other}, "OnReset" if server.machine.traits.apply_times else None)
    kept = settle(server)
    assert kept["foreign_pending"].keys() == {name} and kept["foreign_pending"][name]["pending"] == other
    assert not kept["changed"]
    assert "left pending" in " ".join(kept["warnings"])
    assert settle(server, foreign_pending="fail")["failed"]
    cleared = settle(server, foreign_pending="clear")
    assert cleared["changed"] and not cleared["foreign_pending"] and not server.machine.waiting
    assert not settle(server, foreign_pending="clear")["changed"]


def test_a_value_that_is_refused(hpe: BmcServer) -> None:
    with pytest.raises(BmcError) as caught, Bmc(Access(hpe.url, "admin", "admin")) as bmc:
        document = settling.read(bmc, options(hpe))
        document["registry"] = redfish.Registries().of(bmc, document)
        name = next(e["AttributeName"] for e in hpe.machine.registry["Attributes"] if e["Type"] == "Enumeration")
        settling.writing.submit(bmc, document, {"Attributes": {name: "Perhaps"}})
    assert f"{name}='Perhaps' (allowed: " in str(caught.value), caught.value
    assert hpe.service.sessions == 0


def test_dell_makes_a_job_where_none_was_made(dell: BmcServer) -> None:
    asked = word_of(dell)
    dell.machine.submit(settle(dell, check=True, settings=asked)["requested"], None)
    assert not dell.machine.jobs
    done = settle(dell, settings=asked)
    assert done["changed"] and [j.state for j in dell.machine.jobs] == ["Scheduled"]


def test_dell_job_of_before_is_replaced(dell: BmcServer) -> None:
    asked = word_of(dell)
    mine = settle(dell, check=True, settings=asked)["requested"]
    foreign = next(n for n, v in dell.machine.current.items() if v == "Enabled" and n not in mine)
    dell.machine.submit({foreign: "Disabled"}, "OnReset")
    done = settle(dell, settings=asked)
    assert done["changed"] and len(dell.machine.unfinished()) == 1
    assert done["foreign_pending"].keys() == {foreign}, "what others asked for is kept"


def test_dell_is_believed_only_after_the_job(dell: BmcServer) -> None:
    asked = word_of(dell)
    dell.machine.job_seconds = 3600.0
    settle(dell, settings=asked)
    dell.machine.boot_up()
    running = settle(dell, settings=asked)
    assert running["reset_required"] and not running["changed"]
    assert [j["state"] for j in read(dell)["bios"]["jobs"]] == ["Running"]
    ticks = iter(range(0, 10**6, 60))
    with Bmc(Access(dell.url, "admin", "admin")) as bmc:
        left = jobs.wait_after_boot(bmc, jobs.QUEUE, 300, lambda: float(next(ticks)), lambda s: None)
        assert [j["state"] for j in left] == ["Running"]
        dell.machine.jobs[0].due = 0.0
        assert jobs.wait_after_boot(bmc, jobs.QUEUE, 300, lambda: float(next(ticks)), lambda s: None) == []
    assert not settle(dell, settings=asked)["reset_required"]


def test_dies_between_patch_and_reset(server: BmcServer) -> None:
    asked = word_of(server)
    server.faults.die_after_patch = True
    with pytest.raises(BmcError) as caught, Bmc(Access(server.url, "admin", "admin", timeout=0.5), sleep=lambda s: None) as bmc:
        settling.settle(bmc, options(server, settings=asked), False)
    assert caught.value.kind == "unreachable"
    server.faults.revive()
    again = settle(server, settings=asked)
    assert again["reset_required"] and server.machine.waiting
    assert not again["changed"] and patches(server) <= 1


def test_many_share_a_registry(hpe: BmcServer) -> None:
    asked = word_of(hpe)
    hpe.requests.clear()
    hosts = {f"h{n}": options(hpe, settings=asked) for n in range(6)}
    found = redfish.read_many(hosts, 3, bios.needs_registry)
    assert all(d["registry"] is found["h0"]["registry"] for d in found.values()) and found["h0"]["registry"]
    assert sum(1 for _m, path, _s in hpe.requests if "Registry.json" in path) == 1


def test_one_dead_among_many(hpe: BmcServer) -> None:
    hosts = {"good": options(hpe), "dead": options(hpe, baseuri="http://127.0.0.1:1"), "wrong": options(hpe, password="no")}
    found = redfish.read_many(hosts, needs_registry=bios.needs_registry)
    assert not found["good"]["error"]
    assert "is not reached: Connection refused" in found["dead"]["error"]
    assert "refuses the login of admin" in found["wrong"]["error"]
    assert found["dead"].keys() == found["good"].keys()
