# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a refusal of the kernel means, and why a LAG is not what it should be. Pure."""

from __future__ import annotations

from typing import List, Sequence, Tuple

from ..state import Pf, Vf
from . import words
from .shapes import Op

NO_ROOM = (
    "SR-IOV is off in the BIOS, or the firmware left no room for the VFs (memory windows, bus numbers): "
    "switch SR-IOV on in the BIOS; if it is on, boot with pci=realloc (sriov_pci_realloc)"
)

_WHY: Tuple[Tuple[Tuple[str, ...], str, str], ...] = (
    (("numvfs",), "Cannot allocate memory", NO_ROOM),
    (("numvfs",), "out of range", "the card's firmware allows fewer VFs: raise NUM_OF_VFS (nic_firmware) and power cycle"),
    (("numvfs",), "Numerical result", "the card's firmware allows fewer VFs: raise NUM_OF_VFS (nic_firmware) and power cycle"),
    (("numvfs", "unbind"), "busy", "a guest or another process still has a VF open: stop it, then run again"),
    (("eswitch",), "busy", "offloaded flows keep the eswitch busy: take the representors out of Open vSwitch first"),
    (("eswitch",), "not supported", "the driver has no switchdev mode for this card or firmware"),
    (("steering",), "not supported", "the steering mode only changes in legacy mode, and dmfs or smfs may be missing"),
    (("multiport",), "not supported", "needs LAG_RESOURCE_ALLOCATION=1 in the firmware and all PFs in switchdev mode"),
    (("multiport",), "Invalid argument", "another LAG is active on this card: no bond of its PFs may exist"),
    (("bind",), "Invalid argument", "vfio-pci needs an IOMMU group for the VF: switch the IOMMU on (role iommu)"),
    (("enslave", "relag"), "not permitted", "the device was up, or is in another bond"),
)  # fmt: skip

_VF_WHY = {
    "node_guid": "GUIDs need an InfiniBand port", "port_guid": "GUIDs need an InfiniBand port",
    "link_state": "this driver has no link state of VFs (igb has none)",
    "vlan": "in switchdev mode a VF has no VLAN of its own: its representor has", "min_tx_rate": "no lower limit in this driver",
    "spoofchk": "in switchdev mode there is no spoof check", "trust": "in switchdev mode there is no trust",
}  # fmt: skip


def refusal(op: Op, said: str) -> str:
    """What the kernel's answer to an operation means; "" where nothing is known about it."""
    lowered = said.lower()
    for kinds, word, why in _WHY:
        if op.kind in kinds and word.lower() in lowered:
            return why
    if op.kind == "vf" and ("not supported" in lowered or "invalid argument" in lowered):
        return "; ".join(dict.fromkeys(_VF_WHY[key] for key in op.value if key in _VF_WHY))
    return ""


def lag_faults(pfs: Sequence[Pf], wanted: str) -> List[str]:
    """Why the LAG of these PFs is not active or not of the wanted type, as far as it shows; empty where it is."""
    lags = [pf["lag"] for pf in pfs]
    known = [lag for lag in lags if lag is not None]
    if len(known) == len(lags) and all(lag["state"] == "active" and lag["type"] == wanted for lag in known):
        return []
    found = []
    kinds = {lag["type"] or lag["state"] for lag in known}
    said = " and ".join(sorted(kinds))
    for pf in pfs:
        bound = [vf["index"] for vf in pf["vfs"] if vf["driver"]]
        if bound:
            found.append("%s of %s %s bound before LAG became active: %s, not %s" % (
                words.indexes(bound), words.pf(pf), "was" if len(bound) == 1 else "were", _type(said), wanted))  # fmt: skip
        if pf["vfs"] and pf["eswitch"]["mode"] == "legacy":
            found.append("%s has VFs and its eswitch is in legacy mode: LAG silently stays away" % words.pf(pf))
        if (pf["sriov_total"] or 0) > 64:
            found.append("the firmware of %s counts %d VFs (NUM_OF_VFS): with more than 64 LAG never becomes active" % (
                words.pf(pf), pf["sriov_total"] or 0))  # fmt: skip
    modes = {pf["eswitch"]["mode"] for pf in pfs}
    if len(modes) > 1:
        found.append("the PFs are in different eswitch modes: %s" % ", ".join(sorted(str(mode) for mode in modes)))
    if "roce" in kinds and not found:
        found.append("type is roce, not %s: the PFs were in legacy mode without VFs when the bond was made" % wanted)
    return found or ["LAG is %s, not %s" % (said or "not known", wanted)]


def _type(said: str) -> str:
    return "type is %s" % said if said and said != "disabled" else "LAG is disabled"


def vf_user(vf: Vf) -> str:
    """Who has the VF: its user, else its driver."""
    return vf["in_use"] or (vf["driver"] and "driver %s" % vf["driver"]) or "nobody"
