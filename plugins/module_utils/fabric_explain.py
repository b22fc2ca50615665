# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each fault of the fabric explained: what was seen, what causes it, what it costs, how it is put right. Pure.

Rules are data here; their checks stand in fabric_checks.py and fabric_checks_host.py. What the kernel's refusal of one
operation means says fabric/explain.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from . import fabric_checks as lag
from . import fabric_checks_host as host
from .fabric_checks import Hit
from .fabric_view import View, view

SEVERITIES = ("high", "medium", "low", "note")

LAG_C = "Linux drivers/net/ethernet/mellanox/mlx5/core/lag/lag.c"
OVS_TESTS = "Mellanox ovs-tests"
FIELD = "field report of SK Telecom and NetApp: AI storage in KubeVirt VMs"
GUIDE = "NVIDIA AI Enterprise, optimizing VM configuration"
SWITCHDEV = "Linux kernel documentation, networking/switchdev"
OURS = "nearmetal, docs/fabric.md"

NO_LAG = "the VFs do not survive the loss of a cable: storage through them drops, and takes the VMs down"
ONE_PORT = "half the bandwidth, and no port left for the next fault"
ORDER = "nearmetal apply carries out the whole order: unbind VFs, switchdev, bond, wait for LAG, bind VFs"


@dataclass(frozen=True)
class FabricRule:
    """One fault. cost: what it does to VMs; source: who says so."""

    id: str
    severity: str
    title: str
    check: Callable[[View], Iterator[Hit]]
    cause: str
    cost: str
    source: str
    fix: str


RULES: Tuple[FabricRule, ...] = (
    FabricRule(
        "lag-vfs-bound", "high", "VFs were bound before VF LAG was active", lag.vfs_bound_early,
        "a VF that has a driver while LAG is being activated keeps the firmware from making it a switchdev LAG",
        NO_LAG, LAG_C, "unbind these VFs, take the bond down and up, bind them when type is switchdev; " + ORDER,
    ),
    FabricRule(
        "lag-type", "high", "LAG is active, but not for VFs", lag.lag_type,
        "ports in legacy mode, or bonded before switchdev, give the same bond as LAG type roce: only the type tells",
        NO_LAG, LAG_C, "bring both ports into switchdev mode before they are bonded; " + ORDER,
    ),
    FabricRule(
        "lag-bond-mode", "high", "The bond's mode is not offloaded", lag.bond_mode,
        "mlx5 offloads active-backup (1), balance-xor (2) and 802.3ad (4) only", NO_LAG, LAG_C,
        "vf_lag_bonds: mode: 802.3ad (the switch must speak LACP), balance-xor or active-backup",
    ),
    FabricRule(
        "lag-foreign-slaves", "high", "The bond holds more than the card's ports", lag.bond_foreign,
        "LAG needs exactly the ports of one card in the bond", NO_LAG, LAG_C,
        "take the other interfaces out of the bond",
    ),
    FabricRule(
        "lag-two-cards", "high", "The bond holds ports of several cards", lag.bond_two_cards,
        "one eswitch can fail over between its own ports only", NO_LAG, LAG_C,
        "vf_lag_bonds: pfs: the two ports of one card",
    ),
    FabricRule(
        "lag-eswitch-mixed", "high", "The ports of a bond are in different eswitch modes", lag.eswitch_mixed,
        "LAG needs all ports in the same mode", NO_LAG, LAG_C, "all ports in switchdev mode; " + ORDER,
    ),
    FabricRule(
        "lag-legacy-vfs", "high", "A bonded port has VFs in legacy mode", lag.legacy_with_vfs,
        "a port that has VFs must be in switchdev mode, else LAG silently stays off", NO_LAG, LAG_C,
        "devlink dev eswitch set pci/ADDRESS mode switchdev, with its VFs unbound; " + ORDER,
    ),
    FabricRule(
        "lag-too-many-vfs", "high", "NUM_OF_VFS of the firmware is too large for VF LAG", lag.too_many_vfs,
        "more than 64 VFs keep LAG off, counted by the firmware's NUM_OF_VFS, not by the VFs that exist", NO_LAG,
        OVS_TESTS, "nic_firmware_settings: {NUM_OF_VFS: 64} or less, then the reset that it needs",
    ),
    FabricRule(
        "lag-multiport", "high", "Multiport eswitch and bond at once", lag.multiport_and_bond,
        "the multiport eswitch is an alternative to bonding: with it the bond is not offloaded", NO_LAG, OVS_TESTS,
        "vf_lag_bonds: multiport: false, or no bond over these ports",
    ),
    FabricRule(
        "lag-no-carrier", "high", "VF LAG is off because the bond has no carrier", lag.lag_no_carrier,
        "LAG becomes active only when the bond does: a cable, the switch port, or an LACP partner that does not answer",
        "no traffic at all", LAG_C, "look at cables and at the switch's port channel; VFs may be bound after that only",
    ),
    FabricRule(
        "lag-inactive", "high", "VF LAG is not active", lag.lag_inactive,
        "none of the known causes was seen", NO_LAG, LAG_C,
        "look for `Failed to activate VF LAG` in dmesg; " + ORDER,
    ),
    FabricRule(
        "port-no-carrier", "medium", "A port of a bond has no carrier", lag.port_dark,
        "a cable, a transceiver or the switch port", ONE_PORT, "Linux kernel documentation, networking/bonding",
        "look at cable, transceiver and switch port",
    ),
    FabricRule(
        "vf-not-forwarded", "high", "Nobody forwards for VFs in switchdev mode", host.not_forwarded,
        "in switchdev mode VFs pass no traffic until uplink and representors are ports of one bridge, of Open vSwitch, "
        "or linked by tc flower rules (which are not looked at here)", "these VFs pass no traffic", SWITCHDEV,
        "vf_lag_bonds: forwarding: {type: bridge} or {type: ovs}; {type: external} where somebody else does it",
    ),
    FabricRule(
        "hw-tc-offload-off", "high", "Flows are not offloaded to the card", host.tc_offload_off,
        "with hw-tc-offload off every packet of a VF goes through the host's CPUs",
        "the speed of software switching, and CPU time of the host", SWITCHDEV, "ethtool -K PORT hw-tc-offload on",
    ),
    FabricRule(
        "ovs-no-hw-offload", "high", "Open vSwitch forwards for VFs in software", host.ovs_no_offload,
        "Open vSwitch offloads only with other_config:hw-offload=true, read when it starts",
        "the speed of software switching, and CPU time of the host", "Open vSwitch, ovs-vswitchd.conf.db(5)",
        "ovs-vsctl set Open_vSwitch . other_config:hw-offload=true, then restart ovs-vswitchd",
    ),
    FabricRule(
        "mtu-mismatch", "medium", "MTU of port, bond, representors and VFs differ", host.mtu_mismatch,
        "each was set by somebody else, or a bond took its first slave's",
        "packets are dropped without a word, or sent in small pieces", SWITCHDEV,
        "one MTU: sriov_pfs: mtu and vf_lag_bonds: mtu; the guest's VF must not be larger",
    ),
    FabricRule(
        "vf-far-from-gpu", "medium", "A GPU has no VFs on its NUMA node", host.far_from_gpu,
        "the card with the VFs sits at the other socket", "8.35 instead of 9.48 GiB/s read over NFS with RDMA", GUIDE,
        "sriov_pfs: VFs also on the card near the GPU, or place guests with this GPU knowingly",
    ),
    FabricRule(
        "firmware-waits", "medium", "NIC firmware settings are not in force yet", host.firmware_waits,
        "written for the next boot: a warm reboot may not load them", "the former settings still hold",
        "k8snetworkplumbingwg/sriov-network-operator#449", "nearmetal apply resets the card, or asks for a power cycle",
    ),
    FabricRule(
        "firmware-lockdown", "medium", "Kernel lockdown keeps the firmware tool out", host.firmware_lockdown,
        "with Secure Boot the kernel refuses raw access to PCI devices", "NIC firmware can be neither read nor set",
        "Mellanox/mstflint#1371", "switch Secure Boot off for the time of the change",
    ),
    FabricRule(
        "bios-sriov-off", "high", "SR-IOV is off in the BIOS", host.bios_sriov,
        "the card offers VFs, the kernel was given no room for them (or the card was not reset since)", "no VFs",
        "openshift/openshift-docs#32619",
        "switch SR-IOV on in the BIOS, or give bus numbers and memory with pci=realloc; then reboot",
    ),
    FabricRule(
        "port-renamed", "high", "The bond's configuration names a port that is called otherwise now", host.port_renamed,
        "a kernel upgrade renamed the ports (ens3f0 became ens3f0np0)",
        "the bond comes up without this port, or not at all",
        OURS, "nearmetal apply writes the configuration anew; it knows ports by address, serial or MAC",
    ),
    FabricRule(
        "other-owner", "medium", "Somebody else sets VFs, eswitch or bond", host.other_owner,
        "two owners of one setting undo each other's work", "VFs disappear under running VMs",
        "k8snetworkplumbingwg/sriov-network-operator#632",
        "leave these ports out of its policy, or out of sriov_pfs and vf_lag_bonds; vf_lag_bonds: owner names the one",
    ),
    FabricRule(
        "guard-armed", "medium", "The network guard is still armed", host.guard_armed,
        "a change was made, and the controller did not confirm it over a new connection",
        "the former network state returns when the timer fires", OURS,
        "wait for the timer, then nearmetal apply again",
    ),
    FabricRule(
        "fabric-unit-failed", "high", "The fabric was not set up at boot", host.units_failed,
        "early: VFs or switchdev mode were refused; late: VF LAG did not become active with the right type",
        "the node takes no work: kubelet waits for this unit", OURS,
        "journalctl -u nearmetal-fabric-early -u nearmetal-fabric-late, then nearmetal apply",
    ),
    FabricRule(
        "management-in-lag", "note", "The way to the host runs over managed ports", host.management_in_lag,
        "one bond carries management and VFs", "a change of this bond cuts the connection for some seconds", OURS,
        "sriov_accept_management lists ports for which this is accepted; the network guard brings the former state "
        "back",
    ),
)  # fmt: skip


def findings(
    fabric: Mapping[str, Any],
    desired: Optional[Mapping[str, Any]] = None,
    *,
    firmware: Optional[Mapping[str, Any]] = None,
    pci: Sequence[Mapping[str, Any]] = (),
    lockdown: str = "",
    files: Optional[Mapping[str, str]] = None,
    netdevs: Sequence[str] = (),
) -> List[Dict[str, Any]]:
    """What is wrong in `document["fabric"]`, the worst first, one entry for each rule that found something.

    Each: `{id, severity, title, evidence, lines, cause, cost, source, fix, where}`; `lines` is the evidence by place,
    `evidence` the same in one string, `where` the addresses and netdevs concerned. `desired`: a Desired
    (fabric/shapes.py) as a dict, None where no intent is known. firmware (`document["firmware"]`), pci, lockdown, files (content
    of configuration files by path) and netdevs (all names) are the same host's; what is not given is not looked at.
    """
    seen = view(
        fabric, desired, firmware=dict(firmware or {}), pci=tuple(pci), lockdown=lockdown, files=dict(files or {}),
        netdevs=tuple(netdevs),
    )  # fmt: skip
    return [found for rule in by_severity() for found in [apply_rule(rule, seen)] if found]


def by_severity() -> List[FabricRule]:
    """All rules, the worst first."""
    return sorted(RULES, key=lambda rule: SEVERITIES.index(rule.severity))


def apply_rule(rule: FabricRule, seen: View) -> Dict[str, Any]:
    """The finding of one rule, {} where it found nothing."""
    hits = list(rule.check(seen))
    if not hits:
        return {}
    return {
        "id": rule.id, "severity": rule.severity, "title": rule.title, "evidence": "; ".join(h.evidence for h in hits),
        "lines": [h.evidence for h in hits], "cause": rule.cause, "cost": rule.cost, "source": rule.source,
        "fix": rule.fix, "where": list(dict.fromkeys(name for h in hits for name in h.where)),
    }  # fmt: skip


def state_view(state: Mapping[str, Any], desired: Optional[Mapping[str, Any]] = None) -> Optional[View]:
    """The View of a whole document; None where it has no fabric section."""
    fabric = state.get("fabric")
    if not fabric:
        return None
    return view(
        fabric, desired, firmware=state.get("firmware") or {}, pci=tuple(state["pci"]), files=state.get("files") or {},
        lockdown=state["kernel"]["lockdown"], netdevs=tuple(n["name"] for n in state["net"]),
    )  # fmt: skip


def state_findings(
    state: Mapping[str, Any], desired: Optional[Mapping[str, Any]] = None
) -> List[Dict[str, Any]]:
    """`findings` of a whole document; none where it has no fabric section."""
    seen = state_view(state, desired)
    return [found for rule in by_severity() for found in [apply_rule(rule, seen)] if found] if seen else []


def about(found: Sequence[Mapping[str, Any]], *names: str) -> str:
    """What a problem message adds about a PF, VF or bond: the worst finding there, in one line; "" for none."""
    for one in found:
        if set(names) & set(one["where"]):
            return "%s: %s. %s. Fix: %s" % (
                one["title"],
                one["evidence"],
                _sentence(one["cause"]),
                one["fix"],
            )
    return ""


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
