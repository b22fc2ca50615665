"""The fabric of a host as things to show: nodes > PCIe switches > GPUs and cards > ports, bond, bridge, VFs. Pure.

The drawing of the report and the tree of the terminal are made of it. What could not be read is left out, and
"not known" stands where its absence would mislead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.nearmetal.rack.plugins.module_utils import cpulist
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric_explain import state_findings
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric_view import bridge_of_vf, ports_of

Part = Mapping[str, Any]
Faults = tuple[tuple[int, str], ...]
"""What is wrong with a thing: (number in Scene.findings from 1, title)."""

MAKERS = {"0x10de": "NVIDIA", "0x1002": "AMD", "0x8086": "Intel", "0x15b3": "Mellanox", "0x14e4": "Broadcom"}


@dataclass(frozen=True)
class VfGroup:
    """VFs of one port that are alike. kind: "guest" (vfio-pci), "host" (a network driver), "unbound"."""

    label: str  # "VF 0-7"
    kind: str
    parts: tuple[str, ...]
    addresses: tuple[str, ...]
    faults: Faults = ()


@dataclass(frozen=True)
class Port:
    """One PF, or a NIC without SR-IOV. name: "p0 ens3f0np0"."""

    name: str
    address: str
    link: tuple[str, ...]
    switch: tuple[str, ...]
    size: tuple[str, ...]
    vfs: tuple[VfGroup, ...]
    faults: Faults = ()


@dataclass(frozen=True)
class Joint:
    """A bond or a bridge. lag: ("ok" | "bad" | "off", words) of VF LAG, None where there can be none."""

    kind: str  # "bond", "bridge"
    name: str
    parts: tuple[str, ...]
    members: tuple[str, ...]
    lag: tuple[str, str] | None = None
    faults: Faults = ()


@dataclass(frozen=True)
class Card:
    """One card with its ports; joints: bonds over these ports only, then the bridges above them."""

    title: str
    ports: tuple[Port, ...]
    joints: tuple[Joint, ...]
    netdevs: tuple[str, ...]


@dataclass(frozen=True)
class Gpu:
    """One GPU. near: its way to the next NIC."""

    address: str
    parts: tuple[str, ...]
    near: str
    faults: Faults = ()


@dataclass(frozen=True)
class Group:
    """What sits below one PCIe switch; title "" where nothing is shared."""

    title: str
    gpus: tuple[Gpu, ...]
    cards: tuple[Card, ...]


@dataclass(frozen=True)
class NodeBox:
    """A NUMA node; id None: the firmware does not say at which node these sit."""

    id: int | None
    title: str
    groups: tuple[Group, ...]


@dataclass(frozen=True)
class Scene:
    """Everything. joints: bonds and bridges over ports of several cards."""

    nodes: tuple[NodeBox, ...]
    joints: tuple[Joint, ...]
    notes: tuple[str, ...]
    summary: str
    findings: list[dict[str, Any]] = field(default_factory=list)


def scene(state: Part) -> Scene | None:
    """The fabric of a state document; None where there is no section or nothing in it."""
    fabric = state.get("fabric")
    if not fabric or not (fabric.get("pfs") or fabric.get("bonds")):
        return None
    return _Builder(state, fabric).scene()


def is_gpu(function: Part) -> bool:
    """A GPU or accelerator, not the display of a BMC."""
    kind = function["class"].lower()
    return kind[:6] in ("0x0302", "0x1200") or (
        kind[:6] == "0x0300" and function["vendor"] in ("0x10de", "0x1002")
    )


def ranges(vfs: Sequence[Part]) -> str:
    """Such as "VF 0-7,9"."""
    return "VF " + cpulist.format({int(vf["index"]) for vf in vfs})


class _Builder:
    """Puts the scene of one host together."""

    def __init__(self, state: Part, fabric: Part) -> None:
        self.state, self.fabric = state, fabric
        self.found = state_findings(state)
        self.links = {n["name"]: n for n in state["net"]}
        self.pci = {f["address"]: f for f in state["pci"]}
        self.bridges = ports_of(fabric)
        self.pfs = {pf["address"]: pf for pf in fabric.get("pfs") or ()}
        self.cards = self._cards()
        self.shared: list[Joint] = []

    def scene(self) -> Scene:
        groups: dict[int | None, list[Group]] = {}
        drawn, names = self._joints()
        for node, title, gpus, cards in self._places():
            here = tuple(self._card(key, drawn.get(key, ())) for key in cards)
            groups.setdefault(node, []).append(Group(title, tuple(self._gpu(g, node) for g in gpus), here))
        nodes = tuple(
            NodeBox(n, self._node_title(n), tuple(groups[n]))
            for n in sorted(groups, key=lambda n: (n is None, n))
        )
        return Scene(nodes, names, tuple(self._notes()), self._summary(), self.found)

    def _faults(self, name: str) -> Faults:
        return tuple(
            (n, f["title"])
            for n, f in enumerate(self.found, 1)
            if f["severity"] != "note" and name in f["where"]
        )

    def _cards(self) -> dict[str, list[str]]:
        """Card -> addresses of its functions: PFs of the section, and other NICs."""
        every = {a: pf.get("card") or a.rpartition(".")[0] for a, pf in self.pfs.items()}
        for address, function in self.pci.items():
            if function["class"].lower().startswith("0x02") and not function["physfn"]:
                every.setdefault(address, address.rpartition(".")[0])
        out: dict[str, list[str]] = {}
        for address in sorted(every):
            out.setdefault(every[address], []).append(address)
        return out

    def _places(self) -> Iterator[tuple[int | None, str, list[Part], list[str]]]:
        """(node, title, GPUs, cards) of each group: below one root port together, else each for itself."""
        below: dict[str, tuple[list[Part], list[str]]] = {}
        for key, addresses in self.cards.items():
            below.setdefault(self._root(addresses[0]) or key, ([], []))[1].append(key)
        for function in self.pci.values():
            if is_gpu(function):
                root = self._root(function["address"]) or function["address"]
                below.setdefault(root, ([], []))[0].append(function)
        for root, (gpus, cards) in sorted(below.items(), key=lambda item: not item[1][0]):
            first = gpus[0]["address"] if gpus else self.cards[cards[0]][0]
            title = f"PCIe switch below {root}" if len(gpus) + len(cards) > 1 else ""
            yield self._node(first), title, sorted(gpus, key=lambda f: str(f["address"])), cards

    def _root(self, address: str) -> str:
        """The topmost bridge above a function; "" where it hangs on a root bus."""
        seen, at = {address}, address
        while (above := (self.pci.get(at) or {}).get("parent") or "") and above not in seen:
            seen.add(above)
            at = above
        return at if at != address else ""

    def _node(self, address: str) -> int | None:
        pf = self.pfs.get(address) or {}
        node = pf.get("numa_node")
        return node if node is not None else (self.pci.get(address) or {}).get("numa_node")

    def _node_title(self, node: int | None) -> str:
        if node is None:
            return "NUMA node not known"
        cpus = next((n["cpus"] for n in self.state["cpu"]["nodes"] if n["id"] == node), "")
        return f"NUMA node {node}" + (f" · CPUs {cpus}" if cpus else "")

    def _gpu(self, function: Part, node: int | None) -> Gpu:
        root = self._root(function["address"])
        same = [a for addresses in self.cards.values() for a in addresses if root and self._root(a) == root]
        there = [
            a
            for addresses in self.cards.values()
            for a in addresses
            if a in self.pfs and self._node(a) == node
        ]
        if same:
            near = f"NIC {same[0].rpartition('.')[0]} on the same PCIe switch"
        elif node is None:
            near = "its NUMA node is not known"
        else:
            near = "NICs of this node through the CPU" if there else "no SR-IOV NIC on this node"
        parts = (MAKERS.get(function["vendor"]) or str(function["vendor"]), function["driver"] or "no driver")
        return Gpu(function["address"], parts, near, self._faults(function["address"]))

    def _card(self, key: str, joints: tuple[Joint, ...]) -> Card:
        addresses = self.cards[key]
        vendor = (self.pci.get(addresses[0]) or {}).get("vendor", "")
        driver = (self.pfs.get(addresses[0]) or self.pci.get(addresses[0]) or {}).get("driver") or "no driver"
        title = " · ".join(filter(None, [f"NIC {key}", MAKERS.get(vendor, ""), driver]))
        ports = tuple(self._port(address) for address in addresses)
        netdevs = tuple(filter(None, (self._netdev(a) for a in addresses)))
        return Card(title, ports, joints, netdevs)

    def _netdev(self, address: str) -> str:
        if address in self.pfs:
            return str(self.pfs[address].get("netdev") or "")
        return next(iter((self.pci.get(address) or {}).get("netdevs") or ()), "")

    def _port(self, address: str) -> Port:
        pf, netdev = self.pfs.get(address), self._netdev(address)
        link = self.links.get(netdev) or {}
        carrier = pf.get("carrier") if pf else {"up": True, "down": False}.get(link.get("operstate", ""))
        words = [
            {True: "link up", False: "no carrier"}.get(bool(carrier), "")
            if carrier is not None
            else "link not known"
        ]
        if (speed := link.get("speed_mbps")) and speed > 0:
            words.append(f"{speed / 1000:g} Gb/s")
        if netdev and netdev in (self.fabric.get("management") or ()):
            words.append("carries management")
        name = " ".join(filter(None, [(pf or {}).get("port_name") or "", netdev])) or "no netdev"
        mtu = (pf or link).get("mtu")
        size = [f"MTU {mtu}"] if mtu else []
        if pf is None:
            return Port(name, address, tuple(words), ("no SR-IOV",), tuple(size), ())
        if pf.get("sriov_vfs") is not None:
            size.append(f"{pf['sriov_vfs']} of {pf.get('sriov_total') or '?'} VFs")
        return Port(
            name, address, tuple(words), tuple(_switch(pf)), tuple(size), self._vfs(pf), self._faults(address)
        )

    def _vfs(self, pf: Part) -> tuple[VfGroup, ...]:
        """VFs that are alike, put together; ordered by their first index."""
        alike: dict[tuple[Any, ...], list[Part]] = {}
        for vf in pf.get("vfs") or ():
            bridge = bridge_of_vf(vf, self.bridges)
            key = (vf.get("driver"), vf.get("in_use"), bridge, bool(vf.get("representor")), vf.get("representor_vlan"),
                   vf.get("vlan"), vf.get("mtu"), self._faults(vf["address"]))  # fmt: skip
            alike.setdefault(key, []).append(vf)
        return tuple(self._vf_group(vfs, key[2], key[-1]) for key, vfs in alike.items())

    def _vf_group(self, vfs: list[Part], bridge: str, faults: Faults) -> VfGroup:
        one = vfs[0]
        driver = one.get("driver")
        kind = "unbound" if not driver else "guest" if driver.startswith("vfio") else "host"
        parts = [driver or ("no driver" if driver == "" else "driver not known")]
        parts.append({None: "use not known", "": "free"}.get(one.get("in_use"), str(one.get("in_use"))))
        if one.get("representor"):
            parts.append(f"to {bridge}" if bridge else "forwarded by nobody")
        vlan = one.get("representor_vlan") or one.get("vlan")
        parts += [f"VLAN {vlan}"] if vlan else []
        parts += [f"MTU {one['mtu']}"] if one.get("mtu") else []
        return VfGroup(ranges(vfs), kind, tuple(parts), tuple(vf["address"] for vf in vfs), faults)

    def _joints(self) -> tuple[dict[str, tuple[Joint, ...]], tuple[Joint, ...]]:
        """Bonds and bridges that stay within one card, by card; and the others."""
        own: dict[str, list[Joint]] = {}
        shared: list[Joint] = []
        holds: dict[str, set[str]] = {}  # netdev, bond or representor -> cards
        for key, addresses in self.cards.items():
            for address in addresses:
                holds[self._netdev(address)] = {key}
                for vf in (self.pfs.get(address) or {}).get("vfs") or ():
                    holds[vf.get("representor") or ""] = {key}
        holds.pop("", None)
        for data in self.fabric.get("bonds") or ():
            members = tuple(data.get("slaves") or ())
            holds[data["name"]] = {key for name in members for key in holds.get(name, {name})}
            self._keep(self._bond(data, members), holds[data["name"]], own, shared)
        for kind, bridge in self._bridges():
            members = tuple(port["name"] for port in bridge.get("ports") or ())
            cards = {key for name in members for key in holds.get(name, {name})}
            if any(name in holds for name in members):
                self._keep(self._bridge(kind, bridge, members), cards, own, shared)
        return {key: tuple(joints) for key, joints in own.items()}, tuple(shared)

    def _keep(self, joint: Joint, cards: set[str], own: dict[str, list[Joint]], shared: list[Joint]) -> None:
        one = next(iter(cards), "")
        if len(cards) == 1 and one in self.cards:
            own.setdefault(one, []).append(joint)
        else:
            shared.append(joint)

    def _bridges(self) -> Iterator[tuple[str, Part]]:
        for bridge in self.fabric.get("bridges") or ():
            yield "VLAN-aware bridge" if bridge.get("vlan_filtering") else "bridge without VLANs", bridge
        ovs = self.fabric.get("ovs") or {}
        for bridge in ovs.get("bridges") or ():
            yield f"Open vSwitch, hw-offload {'on' if ovs.get('hw_offload') else 'off'}", bridge

    def _bridge(self, kind: str, bridge: Part, members: tuple[str, ...]) -> Joint:
        vlans = {
            v for port in bridge.get("ports") or () for v in (port.get("vids") or [port.get("tag")]) if v
        }
        vlans -= {1} if len(vlans) > 1 else set()
        parts = [kind, f"{len(members)} port{'s' if len(members) != 1 else ''}"]
        parts += [f"VLAN {cpulist.format(vlans)}"] if vlans else []
        return Joint("bridge", bridge["name"], tuple(parts), members, None, self._faults(bridge["name"]))

    def _bond(self, data: Part, members: tuple[str, ...]) -> Joint:
        parts = [f"bond {data.get('mode') or 'of unknown mode'}"]
        status = data.get("mii_status")
        parts.append({"up": "carrier up", "down": "no carrier"}.get(status or "", "carrier not known"))
        parts += [f"MTU {data['mtu']}"] if data.get("mtu") else []
        parts += [f"active port {data['active_slave']}"] if data.get("active_slave") else []
        parts += [f"by {data['owner']}"] if data.get("owner") else []
        pfs = [pf for pf in self.pfs.values() if pf.get("netdev") in members]
        return Joint("bond", data["name"], tuple(parts), members, _lag(pfs), self._faults(data["name"]))

    def _notes(self) -> Iterator[str]:
        for unit, said in (self.fabric.get("units") or {}).items():
            if said not in ("absent", ""):
                yield f"{unit.removesuffix('.service')}: {said}"
        guard = self.fabric.get("guard") or {}
        if guard.get("armed"):
            yield f"network guard armed{', fires at ' + guard['deadline'] if guard.get('deadline') else ''}"

    def _summary(self) -> str:
        pfs = list(self.pfs.values())
        vfs = sum(len(pf.get("vfs") or ()) for pf in pfs)
        lags = [
            _lag([pf for pf in pfs if pf.get("bond") == b["name"]]) for b in self.fabric.get("bonds") or ()
        ]
        good = sum(lag is not None and lag[0] == "ok" for lag in lags)
        said = [f"{len(self.cards)} NIC(s) with {len(pfs)} SR-IOV port(s) and {vfs} VF(s)"]
        said.append(f"{len(lags)} bond(s), VF LAG active on {good}")
        said.append(f"{sum(map(is_gpu, self.pci.values()))} GPU(s)")
        serious = sum(f["severity"] != "note" for f in self.found)
        return "; ".join(said) + f"; {serious or 'no'} fault(s) found."


def _switch(pf: Part) -> Iterator[str]:
    """Words about the embedded switch of a port."""
    eswitch = pf.get("eswitch") or {}
    yield {None: "no eswitch", "": "no eswitch"}.get(eswitch.get("mode"), str(eswitch.get("mode")))
    if eswitch.get("steering"):
        yield str(eswitch["steering"])
    if eswitch.get("mode") == "switchdev" and pf.get("hw_tc_offload") is not None:
        yield f"tc offload {'on' if pf['hw_tc_offload'] else 'off'}"
    if eswitch.get("multiport"):
        yield "multiport"


def _lag(pfs: Sequence[Part]) -> tuple[str, str] | None:
    """VF LAG of the ports of a bond, with a tone."""
    lag = next((pf["lag"] for pf in pfs if pf.get("lag") and pf["lag"].get("state")), None)
    if lag is None:
        return None
    kind = lag.get("type")
    carries = any(pf.get("sriov_vfs") or (pf.get("eswitch") or {}).get("mode") == "switchdev" for pf in pfs)
    if lag["state"] != "active":
        return ("bad" if carries else "off"), f"LAG {lag['state']}"
    if kind in ("switchdev", "multiport_eswitch"):
        return "ok", f"VF LAG active, type {kind}"
    if kind is None:
        return "off", "LAG active, type not known"
    return ("bad" if carries else "off"), f"LAG active, type {kind}: not for VFs"
