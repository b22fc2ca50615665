"""The fabric as a drawing and as a tree: nothing overlaps, nothing is lost, everything fits."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import pairwise
from typing import Any

import fabric_states as fs
import pytest
import report_fixtures as made
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from nearmetal.fabric_scene import Scene, scene
from nearmetal.fabric_text import tree
from nearmetal.report.fabric_layout import FONT, LINE, PAD, Box, Layout, layout, text_width
from nearmetal.report.fabric_svg import FEWER, WIDTHS, drawing, svg
from nearmetal.views import show_state

pytestmark = pytest.mark.simulated

NAMES = st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), min_size=1, max_size=40)
SVG = "{http://www.w3.org/2000/svg}"


def seen(document: dict[str, Any]) -> Scene:
    found = scene(document)
    assert found is not None
    return found


def text_of(placed: Layout) -> str:
    return "\n".join(line.text for box in placed.boxes for line in box.texts)


@st.composite
def hosts(draw: st.DrawFn) -> dict[str, Any]:
    """Any host: cards of one to four ports, VFs of any driver, bonds over any ports, GPUs and switches anywhere."""
    document = made.big_host("h")
    nodes = st.one_of(st.none(), st.integers(0, 7))
    pfs: list[dict[str, Any]] = []
    document["pci"], document["net"] = [], []
    roots = [f"0000:{0xE0 + n:02x}:01.0" for n in range(3)]
    document["pci"] += [made.function(root, "0x060400", 0) for root in roots]
    for card in range(draw(st.integers(0, 9))):
        node, root = draw(nodes), draw(st.sampled_from(["", *roots]))
        for port in range(draw(st.integers(1, 4))):
            address = f"0000:{0x10 + card:02x}:00.{port}"
            name = draw(st.one_of(st.just(""), NAMES))
            name = f"{name}{len(pfs)}" if name else ""
            one = fs.pf(address, name, draw(st.integers(0, 16)), numa_node=node)
            one["eswitch"]["mode"] = draw(st.sampled_from([None, "legacy", "switchdev"]))
            one["lag"] = draw(st.sampled_from([None, {"state": "active", "type": "roce", "members": []},
                                               {"state": "disabled", "type": None, "members": []}]))  # fmt: skip
            one["carrier"] = draw(st.sampled_from([None, True, False]))
            for function in one["vfs"]:
                function["driver"] = draw(st.sampled_from(["", "vfio-pci", "mlx5_core"]))
                function["in_use"] = draw(st.one_of(st.none(), st.just(""), NAMES))
                function["representor"] = draw(st.sampled_from(["", f"{name}r{function['index']}"]))
            pfs.append(one)
            document["pci"].append(
                made.function(address, "0x020000", node, netdevs=[name] if name else [], parent=root)
            )
    for gpu in range(draw(st.integers(0, 9))):
        root = draw(st.sampled_from(["", *roots]))
        document["pci"].append(
            made.function(
                f"0000:{0x80 + gpu:02x}:00.0", "0x030200", draw(nodes), vendor="0x10de", parent=root
            )
        )
    ports = [one["netdev"] for one in pfs if one["netdev"]]
    some = st.lists(st.sampled_from([*ports, "eno9"]), max_size=5, unique=True)
    bonds = [fs.bond(f"bond{n}", draw(some)) for n in range(draw(st.integers(0, 4)))]
    bridges = [
        {"name": f"br{n}", "vlan_filtering": True, "addresses": [], "up": True,
         "ports": [{"name": name, "pvid": None, "vids": [n + 1]} for name in draw(some)]}
        for n in range(draw(st.integers(0, 2)))
    ]  # fmt: skip
    document["fabric"] = fs.fabric(pfs, bonds, bridges=bridges)
    return document


def inside(inner: Box, outer: Box) -> bool:
    return (
        inner.x >= outer.x and inner.y >= outer.y and inner.x + inner.w <= outer.x + outer.w + 0.01
        and inner.y + inner.h <= outer.y + outer.h + 0.01
    )  # fmt: skip


def apart(one: Box, other: Box) -> bool:
    return (
        one.x + one.w <= other.x
        or other.x + other.w <= one.x
        or one.y + one.h <= other.y
        or other.y + other.h <= one.y
    )


def check_geometry(placed: Layout) -> None:
    """Boxes lie in their parents and beside their siblings; text lies in its box, above the boxes in it."""
    page = Box(0, 0, placed.width, placed.height, -1, "", "", ())
    above: list[tuple[Box, list[Box]]] = [(page, [])]
    for box in placed.boxes:
        while above[-1][0].depth >= box.depth:
            above.pop()
        parent, siblings = above[-1]
        assert inside(box, parent), (box, parent)
        assert all(apart(box, other) for other in siblings), (box, siblings)
        if parent.texts:
            assert box.y >= parent.text_at(len(parent.texts) - 1)[1]
        siblings.append(box)
        above.append((box, []))
        for index, line in enumerate(box.texts):
            x, y = box.text_at(index)
            assert x + text_width(line.text, line.cls == "head") <= box.x + box.w
            assert box.y <= y - FONT * 0.86 and y + FONT * 0.3 <= box.y + box.h
    for x, top, bottom in placed.links:
        assert 0 < x < placed.width and 0 < bottom - top <= 12
        leaves = [box for box in placed.boxes if not box.cls.startswith(("node", "group", "card", "vfs"))]
        middle = (top + bottom) / 2
        assert not any(b.x < x < b.x + b.w and b.y < middle < b.y + b.h for b in leaves)


@settings(max_examples=60)
@given(hosts(), st.sampled_from([*WIDTHS.values(), 500.0, 1600.0]))
def test_nothing_overlaps_and_all_is_inside(document: dict[str, Any], width: float) -> None:
    found = scene(document)
    if found is None:
        assert not document["fabric"]["pfs"] and not document["fabric"]["bonds"]
        return
    placed = layout(found, width)
    check_geometry(placed)
    titles = "\n".join(box.title for box in placed.boxes)
    for function in document["pci"]:
        if not function["class"].startswith("0x0604"):
            assert function["address"] in titles
    for one in [*document["fabric"]["pfs"], *(v for p in document["fabric"]["pfs"] for v in p["vfs"])]:
        assert one["address"] in titles
    ET.fromstring(svg(placed, found.summary))


@given(hosts(), st.integers(60, 100))
@settings(max_examples=60)
def test_the_tree_fits(document: dict[str, Any], width: int) -> None:
    if (found := scene(document)) is None:
        return
    lines = tree(found, width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert all(one["address"] in text for one in document["fabric"]["pfs"])


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("host", [fs.gpu_host(), fs.broken_host(), fs.lab_host(), fs.gpu_host(nodes=8), fs.gpu_host(vfs=0)],
                         ids=["gpu", "broken", "lab", "snc", "no-vfs"])  # fmt: skip
def test_real_hosts_are_drawn_without_loss(host: dict[str, Any], width: float) -> None:
    placed = layout(seen(host), width)
    check_geometry(placed)
    assert "…" not in text_of(placed)


def test_eight_gpus_eight_cards_and_256_vfs_stay_compact() -> None:
    placed = layout(seen(fs.gpu_host()), WIDTHS["wide"])
    assert placed.height < 1300
    assert (
        len([box for box in placed.boxes if box.cls.startswith("vf ")]) == 16
    )  # ranges, once for both ports
    text = text_of(placed)
    for said in ("GPU 0000:18:00.0", "NIC 0000:17:00 on the same PCIe switch", "p0 ens0f0np0", "switchdev · smfs", "16 of 16 VFs",
                 "bond0 · bond 802.3ad", "✓ VF LAG active, type switchdev", "br0 · VLAN-aware bridge", "VF 0-7 of each port",
                 "vfio-pci · vfio group opened", "VLAN 100"):  # fmt: skip
        assert said in text, said
    assert "fault" not in text


def test_a_fault_is_said_in_words_where_it_is() -> None:
    found = seen(fs.broken_host())
    placed = layout(found, WIDTHS["wide"])
    assert found.findings[0]["id"] == "lag-vfs-bound"
    wrong = [box for box in placed.boxes if "faulty" in box.cls]
    assert all(any("✗ fault" in line.text for line in box.texts) for box in wrong)
    vfs = next(box for box in wrong if box.texts[0].text.startswith("VF 3,5"))
    assert "✗ fault 1" in [line.text for line in vfs.texts]
    assert "✗ 1 VFs were bound before VF LAG was active" in vfs.title
    assert "✗ LAG active, type roce: not for VFs" in text_of(placed)
    assert not any(box.texts[0].text.startswith("VF 0-2,4,6-7") for box in wrong if box.texts)


def test_a_bond_over_two_cards_stands_across_them() -> None:
    found = seen(fs.lab_host())
    assert [joint.name for joint in found.joints] == ["bond0"]
    assert [node.title.partition(" · ")[0] for node in found.nodes] == [
        "NUMA node 0",
        "NUMA node 1",
        "NUMA node not known",
    ]
    text = text_of(layout(found, WIDTHS["narrow"]))
    assert "Across cards" in text and "carries management" in text and "active port enp33s0" in text


def test_a_bond_without_ports_says_so() -> None:
    host = {**fs.gpu_host(cards=1, gpus=0), "fabric": fs.fabric([], [fs.bond("bond9", [])])}
    assert "over nothing" in text_of(layout(seen(host), WIDTHS["wide"]))
    assert "over nothing" in "\n".join(tree(seen(host)))


def test_ports_whose_vfs_differ_are_drawn_apart() -> None:
    document = fs.changed(fs.gpu_host(cards=1, gpus=0), "fabric", "pfs", 1, "vfs", 0, "driver", value="")
    text = text_of(layout(seen(document), WIDTHS["wide"]))
    assert "of each port" not in text and "VF 1-7" in text and "NIC 0000:17:00" in text


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (fs.ovs(fs.healthy()), "Open vSwitch, hw-offload on"),
        (fs.ovs(fs.healthy(), hw_offload=False), "Open vSwitch, hw-offload off"),
        (
            fs.each_vf(fs.healthy(), representor_master="", representor_vlan=0) | {"bridges": []},
            "forwarded by nobody",
        ),
        (fs.each_pf(fs.healthy(), lag={"state": "disabled", "type": None, "members": []}), "✗ LAG disabled"),
        (fs.each_vf(fs.healthy(), in_use=None), "use not known"),
        (fs.each_pf(fs.healthy(), hw_tc_offload=False), "tc offload off"),
        (fs.each_pf(fs.healthy(), carrier=None), "link not known"),
    ],
)
def test_what_is_seen_is_said(document: dict[str, Any], said: str) -> None:
    host = {**fs.gpu_host(cards=1, gpus=0), "fabric": document}
    assert said in text_of(layout(seen(host), WIDTHS["wide"]))
    assert said in "\n".join(tree(seen(host)))


def test_gpus_say_how_far_the_next_card_is() -> None:
    host = fs.gpu_host()
    for function in host["pci"]:
        function["parent"] = ""
        if function["address"] == "0000:18:00.0":
            function["numa_node"] = None
    for one in host["fabric"]["pfs"]:
        one["numa_node"] = 0
    near = {gpu.address: gpu.near for node in seen(host).nodes for group in node.groups for gpu in group.gpus}
    assert near["0000:18:00.0"] == "its NUMA node is not known"
    assert near["0000:28:00.0"] == "NICs of this node through the CPU"
    assert near["0000:88:00.0"] == "no SR-IOV NIC on this node"


def test_hostile_names_are_text() -> None:
    evil = '"><script>alert(1)</script>'
    host = fs.changed(fs.gpu_host(cards=1), "fabric", "bonds", 0, "mode", value=evil)
    for _, picture in drawing(host).pictures:  # type: ignore[union-attr]
        assert "<script" not in picture
        assert {element.tag.removeprefix(SVG) for element in ET.fromstring(picture).iter()} <= {
            "svg", "g", "rect", "path", "text", "tspan", "title",
        }  # fmt: skip


def test_each_picture_has_a_name_and_its_boxes_titles() -> None:
    for _, picture in drawing(fs.gpu_host()).pictures:  # type: ignore[union-attr]
        top = ET.fromstring(picture)
        assert top.get("role") == "img" and "8 NIC(s) with 16 SR-IOV port(s) and 256 VF(s)" in (
            top.get("aria-label") or ""
        )
        assert all(group.find("title") is not None for group in top.iter("g"))


def test_many_hosts_have_fewer_pictures() -> None:
    few, many = drawing(fs.gpu_host(), FEWER), drawing(fs.gpu_host(), FEWER + 1)
    assert few and many
    assert [name for name, _ in few.pictures] == ["wide", "medium", "narrow"]
    assert [name for name, _ in many.pictures] == ["wide", "narrow"]


def test_nothing_to_draw() -> None:
    assert scene(made.lab_host("c1", converged=True)) is None
    assert drawing({**fs.gpu_host(), "fabric": fs.fabric([])}) is None


def test_inspect_shows_the_tree() -> None:
    console = Console(width=100, record=True, color_system=None)
    show_state(console, "gpu-02", fs.broken_host())
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 100
    for said in ("fabric: 8 NIC(s)", "├─ p0 ens0f0np0 0000:17:00.0, link up, 200 Gb/s",
                 "VF 3,5, vfio-pci, free, to br0, VLAN 100, ✗ fault 1",
                 "✗ LAG active, type roce: not for VFs", "✗ 1 high: VFs were bound before VF LAG was active"):  # fmt: skip
        assert said in text, said


def test_lines_of_a_box_stand_one_below_the_other() -> None:
    box = Box(10, 20, 100, 90, 0, "port", "", ())
    places = [box.text_at(n) for n in range(4)]
    assert {x for x, _ in places} == {10 + PAD} and all(b[1] - a[1] == LINE for a, b in pairwise(places))
