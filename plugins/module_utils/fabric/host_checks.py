# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host cannot give, found before anything is touched. Pure."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from .. import bios
from ..fabric_boot.program import PATH
from ..model import Problem
from ..state import Fabric, Pf, State
from . import select, words
from .draft import MLX5
from .explain import NO_ROOM
from .intent import BONDS, Built
from .intent_checks import MOST_VFS, PFS, Options, expand
from .shapes import BRIDGE, MULTIPORT, OVS, PLAIN, Desired, DesiredBond, DesiredPf, Op, split_target

VFIO = "vfio-pci"
INFINIBAND = "0x0207"


class Checked(NamedTuple):
    """waiting: PFs for which the firmware settings of this run, of card or BIOS, must be in force first."""

    problems: List[Problem]
    waiting: List[str]


def check(built: Built, mine: Desired, options: Mapping[str, Optional[Options]], state: State) -> Checked:
    """`mine` is the part of the desired that is carried out now. options: sriov, vf_lag, nic_firmware, iommu, bios."""
    fabric = state["fabric"]
    pfs = {pf["address"]: pf for pf in fabric["pfs"]}
    found: List[Problem] = []
    waiting: List[str] = []
    for wish in mine.pfs:
        pf = pfs[wish.address]
        entry = built.entries.get(wish.address)
        bond = mine.bond_of(wish.address)
        found += _count(wish, pf, options, built, state, waiting)
        found += _settings(entry, pf, bond, state) if entry is not None else []
        if bond is None and pf["bond"] and pf["driver"] == MLX5 and wish.vfs not in (None, len(pf["vfs"])):
            text = "%s is in the bond %s, which vf_lag does not manage here: other VFs under it would end its LAG" % (
                words.pf(pf), pf["bond"])  # fmt: skip
            found.append(Problem(PFS, wish.address, text, "list the bond in vf_lag_bonds, with owner: external if need be"))
    for bond in mine.bonds:
        found += _bond(bond, built, pfs, options, state, waiting)
    found += _iommu(mine, options, state, waiting)
    return Checked(found, sorted(set(waiting)))


def _iommu(
    mine: Desired, options: Mapping[str, Optional[Options]], state: State, waiting: List[str]
) -> List[Problem]:
    """Without an IOMMU group vfio-pci takes no device (vfio_main.c); groups come with the IOMMU at boot."""
    asking = [pf.address for pf in mine.pfs if any(vf.driver == VFIO for vf in pf.vf)]
    if not asking or state["iommu"]["groups"] or state["iommu"]["units"]:
        return []
    coming = bios.turning_on(options.get("bios"), state.get("bmc"), "iommu")
    if coming or (options.get("iommu") or {}).get("mode") in ("passthrough", "translated"):
        waiting += asking
        return []
    text = "vfio-pci needs an IOMMU, and this host uses none: VFs of %s could not be bound" % ", ".join(asking)
    return [Problem(PFS, VFIO, text, "set iommu_mode: passthrough, and the IOMMU on in the BIOS", "host")]


def _count(
    wish: DesiredPf, pf: Pf, options: Mapping[str, Optional[Options]], built: Built, state: State, waiting: List[str]
) -> List[Problem]:
    """Whether so many VFs can be made, now or once the firmware settings of this run are in force."""
    count, total = wish.vfs or 0, pf["sriov_total"] or 0
    if not count or count == len(pf["vfs"]):
        return []
    if not pf["netdev"] and pf["driver"] in ("", "vfio-pci"):
        text = "%s has %s: without its own driver it makes no VFs" % (wish.address, pf["driver"] or "no driver")
        return [Problem(PFS, wish.address, text, "bind it to its driver (see lspci -k)", "host")]
    asked = firmware_vfs(options.get("nic_firmware"), built, pf)
    current = _current(state, pf["address"], "NUM_OF_VFS")
    if count > total and asked is not None and asked >= count and (current is None or current < count):
        waiting.append(pf["address"])
        return []
    if total == 0 and bios.turning_on(options.get("bios"), state.get("bmc"), "sriov"):
        waiting.append(pf["address"])
        return []
    return [_too_many(wish, pf, current)] if count > total else []


def _too_many(wish: DesiredPf, pf: Pf, current: Optional[int]) -> Problem:
    count, total = wish.vfs or 0, pf["sriov_total"] or 0
    if total == 0:
        return _no_sriov(wish, pf, current)
    if current is not None and current >= count:
        text = "the firmware of %s allows %d VFs, but the kernel only %d" % (words.pf(pf), current, total)
        return Problem(PFS, count, text, NO_ROOM, "host")
    text = "%d VFs asked for, and %s can have %d" % (count, words.pf(pf), total)
    fix = "lower vfs to %d" % total
    if pf["driver"] == MLX5:
        fix += ", or raise NUM_OF_VFS in nic_firmware_settings to %d" % count
    return Problem(PFS, count, text, fix)


def _no_sriov(wish: DesiredPf, pf: Pf, current: Optional[int]) -> Problem:
    if pf["driver"] == MLX5 and pf["sriov_capable"] is False:
        text = "%s shows no SR-IOV: it is off in the card's firmware (SRIOV_EN) or in the BIOS" % words.pf(pf)
        if current:
            text = "%s has NUM_OF_VFS %d in its firmware and shows no SR-IOV: SRIOV_EN is off, or SR-IOV is off in the BIOS" % (
                words.pf(pf), current)  # fmt: skip
        fix = "set SRIOV_EN: true and NUM_OF_VFS: %d in nic_firmware_settings, and SR-IOV on in the BIOS" % (wish.vfs or 0)
        return Problem(PFS, wish.vfs, text, fix, "host")
    if pf["sriov_capable"]:
        text = "%s has SR-IOV, but the kernel offers no VFs: SR-IOV is off in the BIOS" % words.pf(pf)
        return Problem(PFS, wish.vfs, text, "switch SR-IOV on in the BIOS, or with bios_settings: {sriov: true}", "host")
    text = "%s has no SR-IOV: the card has none, or SR-IOV is off in the BIOS" % words.pf(pf)
    return Problem(PFS, wish.vfs, text, "switch SR-IOV on in the BIOS, or name another PF", "host")


def firmware_vfs(nic_firmware: Optional[Options], built: Built, pf: Pf) -> Optional[int]:
    """NUM_OF_VFS that nic_firmware asks for the card of this PF; None where it does not care. It is per card."""
    if nic_firmware is None:
        return None
    settings: Dict[str, Any] = dict(nic_firmware.get("settings") or {})
    for entry in nic_firmware.get("cards") or ():
        if select.matches({k: entry.get(k) for k in ("address", "serial")}, pf) or _same_card(entry, pf):
            settings.update(entry.get("settings") or {})
    value = settings.get("NUM_OF_VFS")
    asked = int(str(value)) if str(value).isdecimal() else None
    if nic_firmware.get("fit_vfs"):
        ports = [wish.vfs or 0 for wish in built.desired.pfs if wish.address.rpartition(".")[0] == pf["card"]]
        asked = max([asked or 0, *ports])
    return asked


def _same_card(entry: Options, pf: Pf) -> bool:
    address = select.given({"address": entry.get("address")}).get("address", "")
    return bool(address) and address.rpartition(".")[0] == pf["card"]


def _current(state: State, address: str, name: str) -> Optional[int]:
    """A number in the firmware as it is in force; exactly that name and the whole value (18 contains 8)."""
    firmware: Any = state.get("firmware") or {}
    values = firmware.get(address, {}).get("values") or {}
    text = str((values.get(name) or {}).get("current") or "")
    return int(text) if text.isdecimal() else None


def _settings(entry: Options, pf: Pf, bond: Optional[DesiredBond], state: State) -> List[Problem]:
    found: List[Problem] = []
    kind = next((f["class"] for f in state["pci"] if f["address"] == pf["address"]), "")
    switchdev = bond is not None and bond.kind != PLAIN and not bond.absent or bond is None and pf["eswitch"]["mode"] == "switchdev"
    reported = {vf["index"]: vf for vf in pf["vfs"]}
    for options in entry.get("vf") or ():
        if not kind.startswith(INFINIBAND) and (options.get("node_guid") or options.get("port_guid")):
            text = "%s is no InfiniBand port: its VFs have no GUIDs" % words.pf(pf)
            found.append(Problem(PFS, options.get("node_guid") or options.get("port_guid"), text, "remove the GUIDs"))
        if switchdev:
            found += _in_switchdev(entry, options, pf, bond)
        for index in expand(options["index"]):
            have: Any = reported.get(index)
            silent = [k for k in ("mac", "trust", "spoofchk", "link_state") if options.get(k) is not None and have and have[k] is None]
            if silent and any(vf["vlan"] is not None for vf in pf["vfs"]):
                text = "the driver %s does not report %s of VFs: it could not be verified" % (pf["driver"], " and ".join(silent))
                found.append(Problem(PFS, options[silent[0]], text, "remove it for %s" % words.pf(pf)))
                break
    return found


def _in_switchdev(entry: Options, options: Options, pf: Pf, bond: Optional[DesiredBond]) -> List[Problem]:
    """mlx5 refuses VLAN, spoof check and trust of VFs outside legacy mode (EOPNOTSUPP)."""
    found = []
    why = "the eswitch of %s is in switchdev mode" % words.pf(pf)
    if options.get("spoofchk"):
        text = "%s, where there is no spoof check of VFs: the kernel refuses it" % why
        found.append(Problem(PFS, "spoofchk: true", text, "remove spoofchk; filter on the representors instead"))
    if options.get("trust"):
        text = "%s, where VFs are not trusted or distrusted: the kernel refuses it" % why
        found.append(Problem(PFS, "trust: true", text, "remove trust: representors see what their VF sends"))
    if options.get("vlan"):
        forwards = bond is not None and bond.forwarding.type in (BRIDGE, OVS)
        if not forwards:
            text = "%s: a VLAN belongs to the representor's port, and nothing that nearmetal manages forwards here" % why
            fix = "set forwarding of the bond to ovs or bridge, or leave the VLAN to whoever forwards"
            found.append(Problem(PFS, "vlan: %s" % options["vlan"], text, fix))
        if options.get("qos") or options.get("proto") == "802.1ad":
            key = "qos" if options.get("qos") else "proto"
            text = "%s: a VLAN of a representor has no %s" % (why, key)
            found.append(Problem(PFS, "%s: %s" % (key, options[key]), text, "remove %s" % key))
    return found


def _bond(
    bond: DesiredBond, built: Built, pfs: Mapping[str, Pf], options: Mapping[str, Optional[Options]], state: State,
    waiting: List[str],
) -> List[Problem]:  # fmt: skip
    members = [pfs[address] for address in bond.pfs]
    found: List[Problem] = []
    mtus = {m for m in (bond.mtu, *(built.entries[a].get("mtu") for a in bond.pfs if a in built.entries)) if m}
    if len(mtus) > 1:
        text = "PFs and bond %s have one MTU, and %s are asked for" % (bond.name, " and ".join(str(m) for m in sorted(mtus)))
        found.append(Problem(BONDS, bond.mtu, text, "give the same mtu, or only that of the bond"))
    for pf in members:
        if not pf["netdev"]:
            text = "%s has no network device: no driver, or vfio-pci has it" % pf["address"]
            found.append(Problem(BONDS, pf["address"], text, "bind it to its network driver", "host"))
    if bond.kind == PLAIN:
        return found
    return found + _lag(bond, members, built, options, state, waiting)


def _lag(
    bond: DesiredBond, members: Sequence[Pf], built: Built, options: Mapping[str, Optional[Options]], state: State,
    waiting: List[str],
) -> List[Problem]:  # fmt: skip
    others = [pf for pf in members if pf["driver"] and pf["driver"] != MLX5]
    if others:
        text = "%s has no VF LAG: its driver is %s" % (words.pf(others[0]), others[0]["driver"])
        return [Problem(BONDS, others[0]["address"], text, "set lag: false for a bond that is not offloaded")]
    cards = sorted({pf["card"] for pf in members})
    if len(cards) > 1:
        text = "the PFs of %s are on different cards (%s): mlx5 makes a LAG of the ports of one card" % (bond.name, ", ".join(cards))
        return [Problem(BONDS, ", ".join(bond.pfs), text, "name both ports of one card, or set lag: false")]
    if bond.absent:
        return []
    found = [p for pf in members for p in _firmware_limit(pf, built, options, state, waiting)]
    if state["live"] and any(pf["driver"] == MLX5 and pf["eswitch"]["mode"] is None for pf in members):
        reasons = [n["reason"] for n in state["unread"] if n["section"] == "fabric" and "devlink" in n["reason"]]
        text = "the eswitch mode of %s could not be read%s" % (bond.name, ": " + reasons[0] if reasons else "")
        found.append(Problem(BONDS, bond.name, text, "install devlink (iproute2) on the host, run as root", "host"))
    if bond.kind == MULTIPORT:
        for wish in built.desired.pfs:
            if wish.address in bond.pfs[1:] and wish.vfs:
                text = "with a multiport eswitch all VFs belong to the first PF, %s" % bond.pfs[0]
                found.append(Problem(PFS, wish.address, text, "ask for the VFs there, and for none here"))
    return found[:1] if found and len({p.message for p in found}) == 1 else found


def _firmware_limit(
    pf: Pf, built: Built, options: Mapping[str, Optional[Options]], state: State, waiting: List[str]
) -> List[Problem]:
    """More than 64 VFs, as the firmware counts them, and LAG never becomes active (ovs-tests: NUM_OF_VFS=65)."""
    asked = firmware_vfs(options.get("nic_firmware"), built, pf)
    current = _current(state, pf["address"], "NUM_OF_VFS") or pf["sriov_total"] or None
    count = max(asked if asked is not None else current or 0, built.desired.pf(pf["address"]).vfs or 0)
    if count <= MOST_VFS:
        if current is not None and current > MOST_VFS:
            waiting.append(pf["address"])
        return []
    where = "%d VFs are asked for" % count
    if asked is not None and asked > MOST_VFS:
        where = "nic_firmware asks for NUM_OF_VFS %d" % asked
    elif asked is None and current is not None and current > MOST_VFS:
        where = "NUM_OF_VFS is %d in the firmware" % current
    text = "%s: %s, and with more than %d, counted by the firmware, LAG never becomes active" % (pf["card"], where, MOST_VFS)
    fix = "set NUM_OF_VFS in nic_firmware_settings to %d or less, and ask for no more VFs" % MOST_VFS
    return [Problem(BONDS, count, text, fix)]


def owners(fabric: Fabric, ops: Sequence[Op], variable: str) -> List[Problem]:
    """Somebody else sets up VFs on this host: two owners undo each other's work for ever."""
    if not ops:
        return []
    return [
        Problem(variable, owner, "%s manages SR-IOV on this host (%s)" % (owner, where),
                "let one of them do it: take the host out of its policies and remove that, or leave these PFs to it", "host")
        for owner, where in fabric["other_owners"].items()
    ]  # fmt: skip


def guard(fabric: Fabric, ops: Sequence[Op]) -> List[Problem]:
    """A network guard that a former run left, or one of another run: nothing may be changed below it."""
    state = fabric["guard"]
    if state is None or not (state["left"] or state["armed"] and ops):
        return []
    if state["left"]:
        text = "a network guard of a former run is left on the host: %s" % state["left"]
        fix = "put the network back (python3 %s restore), or keep it as it is: nearmetal.rack.network_guard with state: absent" % PATH
    else:
        text = "a network guard of another run is armed until %s" % state["deadline"]
        fix = "wait until that run has confirmed it, or the host has restored its network"
    return [Problem("network_guard", state["deadline"], text, fix, "host")]


def held(ops: Sequence[Op], fabric: Fabric) -> List[Problem]:
    """VFs that guests have open and would lose. The plan names them; the kernel would wait for the guests for ever."""
    found = []
    pfs = {pf["address"]: pf for pf in fabric["pfs"]}
    for op in ops:
        head, word, index = split_target(op.target)
        if op.disruption != "drain" or word != "vf":
            continue
        vf = next(v for v in pfs[head]["vfs"] if v["index"] == index)
        text = "%s is held: %s would lose it" % (words.vf(pfs[head], index), vf["in_use"])
        found.append(Problem(PFS, vf["address"], text, "stop or move the guest, then run again", "host"))
    return found


def management(mine: Desired, fabric: Fabric, ops: Sequence[Op], accepted: Sequence[Any]) -> List[Problem]:
    """PFs that lose traffic by these operations and carry the path by which the host is reached."""
    pfs = {pf["address"]: pf for pf in fabric["pfs"]}
    found = []
    for address in sorted({a for op in ops if op.disruption not in ("none",) for a in _touched(op, mine, pfs)}):
        pf = pfs[address]
        names = [name for name in (pf["netdev"], pf["bond"], *(vf["netdev"] for vf in pf["vfs"])) if name in fabric["management"]]
        if names and not any(_accepts(item, pf) for item in accepted):
            text = "%s carries the management path of this host (%s), and its traffic would stop" % (words.pf(pf), names[0])
            fix = "reach the host another way, or list the PF in sriov_accept_management: the guard then restores it in time"
            found.append(Problem("sriov_accept_management", address, text, fix))
    return found


def _touched(op: Op, mine: Desired, pfs: Mapping[str, Pf]) -> List[str]:
    head, word, index = split_target(op.target)
    if head in pfs:
        if not word:
            return [head]
        return [head] if any(vf["index"] == index and vf["netdev"] for vf in pfs[head]["vfs"]) and word == "vf" else []
    return [a for bond in mine.bonds if op.target in (bond.name, bond.forwarding.name) for a in bond.pfs]


def _accepts(item: Any, pf: Pf) -> bool:
    selector = item if isinstance(item, Mapping) else {"address": item}
    return bool(select.given(selector)) and select.matches(selector, pf)
