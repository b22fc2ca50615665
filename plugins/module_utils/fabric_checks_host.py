# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of forwarding, MTU, locality, firmware, owners and boot units. Same form as fabric_checks.py."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, Mapping, Optional, Set, Tuple

from .fabric_checks import Hit, at
from .fabric_view import Bond, Part, View, bridge_of_vf, counted, label, number, ports_of, switchdev

OUR_UNITS = ("nearmetal-fabric-early.service", "nearmetal-fabric-late.service")
OTHER_OWNERS = (
    "sriov-config",
    "sriov-network-config-daemon",
    "sriov-network-operator",
    "configure-switchdev",
)
"""Beginnings of unit and owner names of tools that set VFs and eswitch modes, too."""

_NP = re.compile(r"^(.*\D\d*)np\d+$")


def _bond_of(view: View, pf: Part) -> Optional[Bond]:
    return next((bond for bond in view.bonds if any(own is pf for own in bond.pfs)), None)


def _left_to_others(view: View, pf: Part) -> bool:
    """Whether the intent names somebody else who forwards."""
    bond = _bond_of(view, pf)
    kind = ((bond.wanted if bond else {}).get("forwarding") or {}).get("type")
    return kind == "external"


def not_forwarded(view: View) -> Iterator[Hit]:
    """VFs of a switchdev port whose representor, or whose uplink, is a port of no bridge."""
    ports = ports_of(view.fabric)
    for pf in view.pfs:
        if not switchdev(pf) or _left_to_others(view, pf):
            continue
        vfs = [vf for vf in pf.get("vfs") or () if _known_free(vf, view) and not bridge_of_vf(vf, ports)]
        if vfs:
            names = (pf["address"], *(vf["address"] for vf in vfs))
            yield Hit("representors of %s of %s are in no bridge" % (counted(vfs), label(pf)), names)
            continue
        down = [
            vf for vf in pf.get("vfs") or () if vf.get("representor") and vf.get("representor_up") is False
        ]
        if down:
            yield Hit(
                "representors of %s of %s are down" % (counted(down), label(pf)),
                (pf["address"], *map(_address, down)),
            )
        bond = _bond_of(view, pf)
        uplink = bond.name if bond else pf.get("netdev")
        used = {bridge_of_vf(vf, ports) for vf in pf.get("vfs") or ()} - {""}
        master = bond.data.get("master") if bond else pf.get("master")
        free = master in ("", "ovs-system") and not _reads_ovs(view, master)
        if used and uplink and free and not ports.get(uplink):
            there = ", ".join(sorted(used))
            said = "representors of %s are in %s, its uplink %s is not" % (label(pf), there, uplink)
            yield Hit(said, (pf["address"], uplink))


def _address(vf: Part) -> str:
    return str(vf["address"])


def _known_free(vf: Part, view: View) -> bool:
    """Whether the document says who has the representor: it was read, and Open vSwitch too where that holds it."""
    master = vf.get("representor_master")
    return bool(vf.get("representor")) and master is not None and not _reads_ovs(view, master)


def _reads_ovs(view: View, master: str) -> bool:
    """Whether Open vSwitch holds it and could not be asked."""
    return master == "ovs-system" and view.fabric.get("ovs") is None


def tc_offload_off(view: View) -> Iterator[Hit]:
    """hw-tc-offload is off on a switchdev port."""
    for pf in view.pfs:
        if switchdev(pf) and pf.get("hw_tc_offload") is False:
            yield Hit(
                "ethtool -k %s: hw-tc-offload is off" % (pf.get("netdev") or pf["address"]), (pf["address"],)
            )


def ovs_no_offload(view: View) -> Iterator[Hit]:
    """Open vSwitch forwards for VFs in software."""
    ovs = view.fabric.get("ovs") or {}
    if ovs.get("hw_offload") is not False:
        return
    reps = {vf.get("representor") for pf in view.pfs for vf in pf.get("vfs") or () if vf.get("representor")}
    for bridge in ovs.get("bridges") or ():
        used = [port["name"] for port in bridge.get("ports") or () if port["name"] in reps]
        if used:
            what = "%s forwards for %d representor%s" % (
                bridge["name"],
                len(used),
                "s" if len(used) > 1 else "",
            )
            yield Hit("other_config:hw-offload is not true, and %s" % what, (bridge["name"],))


def mtu_mismatch(view: View) -> Iterator[Hit]:
    """MTU of PF, bond, representors and VFs differ. A VF in a guest has no MTU that the host knows."""
    said_bonds: Set[str] = set()
    for pf in view.pfs:
        mtu = pf.get("mtu")
        if mtu is None:
            continue
        bond = _bond_of(view, pf)
        parts = []
        if bond and bond.data.get("mtu") not in (None, mtu):
            parts.append("%s %d" % (bond.name, bond.data["mtu"]))
            said_bonds.add(bond.name)
        for key, what in (("representor_mtu", "representors of "), ("mtu", "")):
            by_mtu: Dict[int, List[Part]] = {}
            for vf in pf.get("vfs") or ():
                if vf.get(key) not in (None, mtu):
                    by_mtu.setdefault(vf[key], []).append(vf)
            parts += ["%s%s %d" % (what, counted(vfs), value) for value, vfs in sorted(by_mtu.items())]
        if parts:
            names = (pf["address"], *([bond.name] if bond and bond.name in said_bonds else []))
            yield Hit("%s %d, %s" % (label(pf), mtu, ", ".join(parts)), names)


def far_from_gpu(view: View) -> Iterator[Hit]:
    """VFs for guests on a NUMA node without a GPU, while GPUs for guests sit on a node without such VFs."""
    gpus = [f for f in view.pci if _gpu(f) and f.get("numa_node") is not None]
    with_vfs = {
        int(pf["numa_node"]) for pf in view.pfs if pf.get("sriov_vfs") and pf.get("numa_node") is not None
    }
    far = [f for f in gpus if f["numa_node"] not in with_vfs]
    if with_vfs and far:
        nodes = ", ".join(str(node) for node in sorted(with_vfs))
        for gpu in far:
            said = "GPU %s is on node %d, VFs are on node %s only" % (gpu["address"], gpu["numa_node"], nodes)
            yield Hit(said, (gpu["address"],))


def _gpu(function: Part) -> bool:
    kind, vendor = function.get("class", ""), function.get("vendor", "")
    return kind[:6] in ("0x0302", "0x1200") or (kind[:6] == "0x0300" and vendor in ("0x10de", "0x1002"))


def firmware_waits(view: View) -> Iterator[Hit]:
    """Firmware values that come into force only at the next reset."""
    seen: Set[Tuple[str, str]] = set()
    for address, told in sorted(view.firmware.items()):
        waits = [
            "%s %s, next %s" % (name, value.get("current"), value.get("next"))
            for name, value in sorted((told.get("values") or {}).items())
            if value.get("next") is not None and value.get("current") is not None and _differ(value)
        ]
        card = address.rpartition(".")[0]
        if waits and (card, str(waits)) not in seen:  # both ports of a card say the same
            seen.add((card, str(waits)))
            yield Hit("%s: %s" % (address, "; ".join(waits)), (address,))


def _differ(value: Mapping[str, Any]) -> bool:
    now, then = number(value["current"]), number(value["next"])
    return (
        now != then if now is not None and then is not None else str(value["current"]) != str(value["next"])
    )


def firmware_lockdown(view: View) -> Iterator[Hit]:
    """The firmware tool was refused, and the kernel is locked down."""
    for address, told in sorted(view.firmware.items()):
        error = told.get("error") or ""
        if error and (view.lockdown in ("integrity", "confidentiality") or "lockdown" in error.lower()):
            said = " (/sys/kernel/security/lockdown is %s)" % view.lockdown if view.lockdown else ""
            yield Hit("%s %s: %s%s" % (told.get("tool") or "firmware tool", address, error, said), (address,))


def bios_sriov(view: View) -> Iterator[Hit]:
    """The card's firmware offers VFs, and the kernel has none to give."""
    for pf in view.pfs:
        values = (view.firmware.get(pf["address"]) or {}).get("values") or {}
        enabled = number((values.get("SRIOV_EN") or {}).get("current"))
        count = number((values.get("NUM_OF_VFS") or {}).get("current"))
        if enabled and count and pf.get("sriov_total") == 0:
            yield Hit("%s: the firmware has SRIOV_EN and NUM_OF_VFS %d, sriov_totalvfs is 0" % (label(pf), count),
                      (pf["address"],))  # fmt: skip


def port_renamed(view: View) -> Iterator[Hit]:
    """The bond's configuration names a port as it was called before a kernel upgrade."""
    now = {pf["netdev"]: pf for pf in view.pfs if pf.get("netdev")}
    for data in view.fabric.get("bonds") or ():
        for path in data.get("owner_files") or ():
            words = set(re.findall(r"[A-Za-z0-9_.:-]+", view.files.get(path, "")))
            for name, pf in sorted(now.items()):
                for old in sorted(_other_names(name, words) - set(view.netdevs) - set(now)):
                    said = "%s names %s, which is now %s (%s)" % (path, old, name, pf["address"])
                    yield Hit(said, (data["name"], pf["address"]))


def _other_names(name: str, words: Set[str]) -> Set[str]:
    """The same port under the other naming scheme: with and without npN (ens3f0, ens3f0np0)."""
    match = _NP.match(name)
    if match:
        return {match.group(1)} & words
    return {word for word in words if re.fullmatch(re.escape(name) + r"np\d+", word)}


def other_owner(view: View) -> Iterator[Hit]:
    """Somebody else sets VFs, eswitch or the bond."""
    for name, path in sorted((view.fabric.get("other_owners") or {}).items()):
        yield Hit("%s manages SR-IOV here (%s)" % (name, path), ())
    for unit, state in sorted((view.fabric.get("units") or {}).items()):
        if unit.startswith(OTHER_OWNERS) and state in ("active", "failed", "activating"):
            yield Hit("%s is %s" % (unit, state), ())
    for bond in view.bonds:
        owner = str(bond.data.get("owner") or "")
        asked = bond.wanted.get("owner") or "auto"
        if owner.startswith(OTHER_OWNERS):
            yield Hit("%s belongs to %s" % (bond.name, owner), at(bond))
        elif owner and asked not in ("auto", owner):
            files = ", ".join(bond.data.get("owner_files") or ())
            told = " (%s)" % files if files else ""
            yield Hit("%s is to belong to %s, and %s has it%s" % (bond.name, asked, owner, told), at(bond))


def guard_armed(view: View) -> Iterator[Hit]:
    """The network guard waits for a confirmation that nobody gave."""
    guard = view.fabric.get("guard") or {}
    if guard.get("armed"):
        deadline = guard.get("deadline")
        yield Hit(
            "the timer nearmetal-guard is armed%s" % (", it fires at %s" % deadline if deadline else ""), ()
        )


def units_failed(view: View) -> Iterator[Hit]:
    """A boot unit of ours failed."""
    for unit in OUR_UNITS:
        if (view.fabric.get("units") or {}).get(unit) == "failed":
            yield Hit("%s is failed" % unit, ())


def management_in_lag(view: View) -> Iterator[Hit]:
    """The way to the host runs over ports whose VFs and eswitch are managed."""
    carries = set(view.fabric.get("management") or ())
    for bond in view.lags:
        names = [name for name in [bond.name] + [str(pf.get("netdev")) for pf in bond.pfs] if name in carries]
        if names:
            yield Hit("the default route or the SSH connection runs over %s" % ", ".join(names), at(bond))
