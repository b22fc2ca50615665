"""The domain XML of a benchmark guest."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils import bench_domain as d
from ansible_collections.nearmetal.rack.plugins.module_utils.bench_scenarios import Side

FILES = d.Files("/x/vmlinuz", "/x/initrd", "/x/a.sock")


def a_side(threads: int = 2) -> Side:
    topology = (1, 4 // threads, threads)
    cells = (((0, 1), 0), ((2, 3), 1))
    return Side(
        "matched_pinned", 1, "", "", topology, (4, 5, 6, 7), cells, frozenset({4, 5, 6, 7}), frozenset({0, 1})
    )


def parse(side: Side, guest: d.Guest) -> ET.Element:
    return ET.fromstring(d.domain_xml(side, guest, FILES))


def test_pins_memory_and_topology() -> None:
    top = parse(a_side(), d.Guest("x86_64", 257, 2048, "pc", topoext=False))
    pins = {p.get("vcpu"): p.get("cpuset") for p in top.iterfind("cputune/vcpupin")}
    assert pins == {"0": "4", "1": "5", "2": "6", "3": "7"}
    assert top.find("cputune/emulatorpin").get("cpuset") == "0-1"
    assert top.find("cpu/topology").attrib == {"sockets": "1", "cores": "2", "threads": "2"}
    assert [(c.get("cpus"), c.get("memory")) for c in top.iterfind("cpu/numa/cell")] == [
        ("0-1", "128"),
        ("2-3", "128"),
    ]
    assert top.findtext("memory") == "256"  # the sum of the cells, whatever was asked for
    assert [(m.get("cellid"), m.get("nodeset")) for m in top.iterfind("numatune/memnode")] == [
        ("0", "0"),
        ("1", "1"),
    ]
    assert {m.get("mode") for m in top.find("numatune")} == {"strict"}
    assert top.find("memoryBacking/hugepages/page").attrib == {"size": "2048", "unit": "KiB"}
    assert top.find("features/kvm/hint-dedicated").get("state") == "on"
    assert top.find("cpu/cache").get("mode") == "passthrough"
    assert top.findtext("name").startswith(d.PREFIX)


def test_ordinary_pages_are_no_backing() -> None:
    assert parse(a_side(), d.Guest("x86_64", 256, 0, "pc", topoext=False)).find("memoryBacking") is None


@pytest.mark.parametrize(
    ("threads", "topoext", "there"), [(2, True, True), (2, False, False), (1, True, False)]
)
def test_topoext_only_where_threads_are_shown_and_the_host_has_it(
    threads: int, topoext: bool, there: bool
) -> None:
    top = parse(a_side(threads), d.Guest("x86_64", 256, 0, "pc", topoext))
    assert (top.find("cpu/feature[@name='topoext']") is not None) == there


def test_arm_has_no_x86_features() -> None:
    top = parse(a_side(), d.Guest("aarch64", 256, 0, "virt", topoext=False))
    assert top.find("features/kvm") is None
    assert top.find("os/type").get("machine") == "virt"
    assert "console=ttyAMA0" in top.findtext("os/cmdline")


def test_unknown_architecture() -> None:
    with pytest.raises(ValueError, match="riscv64.*x86_64"):
        d.console_device("riscv64")


def test_a_guest_that_crashes_does_not_stay() -> None:
    top = parse(a_side(), d.Guest("x86_64", 256, 0, "pc", topoext=False))
    assert {top.findtext(e) for e in ("on_poweroff", "on_reboot", "on_crash")} == {"destroy"}
