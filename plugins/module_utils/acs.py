# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Access Control Services on the bridges between a GPU and a NIC: which bits, on which bridges, by which means. Pure.

Masks are those of the kernel's config_acs= (bit 0 last, x: as it is). For a VM the bridges redirect everything to the
IOMMU, but the NIC's port lets translated requests through, so that ATS pays (NVIDIA AI Enterprise, "Optimizing VM
configuration", appendix). On bare metal nothing is redirected. On Grace a ConnectX-8 uses its Data Direct function, for
which requests and completions are redirected on one side each (rdma-core, kernel-boot/rdma_topo).

Kernel: config_acs= since 6.11 (47c8846a49ba), which took several bridges only from 6.15 on (9cf8a952d57b: of those
before, only the first was set, and zeros copied the firmware's bits); disable_acs_redir= since 4.19.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from .state import Function, Pcie

VM, BARE_METAL = "vm", "bare_metal"
ISOLATED = "xx111x1"
"""What a kernel with an IOMMU sets by itself."""
VM_NIC_PORT = "1x111x1"
OPEN = "xx000x0"
NOT_REDIRECTED = "xxx00xx"
"""What disable_acs_redir= does of OPEN."""
DIRECT_NIC_PORT, DIRECT_GPU_PORT, DIRECT_ROOT = "xx110x1", "xx101x1", "xx111x0"
DIRECT_DEVICES = ("0x2100",)
"""Data Direct functions of ConnectX-8 (vendor 15b3)."""
GRACE_PORTS = ("0x22b1", "0x22b2", "0x22b8")
"""Root ports of Grace (vendor 10de)."""

KERNEL, REDIR, RUNTIME = "config_acs", "disable_acs_redir", "runtime"


class Fault(NamedTuple):
    """Why a path makes no sense."""

    value: str
    message: str
    fix: str


def is_grace(pci: Sequence[Function]) -> bool:
    """Whether the host is NVIDIA Grace, by its root ports."""
    return any(f["vendor"] == "0x10de" and f["device"] in GRACE_PORTS for f in pci)


def version(release: str) -> Tuple[int, int]:
    """(6, 11) of "6.11.0-29-generic"."""
    match = re.match(r"(\d+)\.(\d+)", release)
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


def above(address: str, known: Mapping[str, Function]) -> List[str]:
    """Bridges above a function, the nearest first."""
    found: List[str] = []
    at = known[address]["parent"]
    while at in known and at not in found:
        found.append(at)
        at = known[at]["parent"]
    return found


def masks(
    paths: Sequence[Mapping[str, str]], policy: str, pci: Sequence[Function], pcie: Mapping[str, Pcie]
) -> Tuple[Dict[str, str], List[Fault]]:
    """{bridge: mask} over all paths, only of bridges that have ACS; and what is wrong with the paths."""
    known = {f["address"]: f for f in pci}
    found: Dict[str, str] = {}
    faults: List[Fault] = []
    for path in paths:
        for kind in ("gpu", "nic"):
            if path[kind] not in known:
                fix = "look with: nearmetal inspect HOST, or lspci -D"
                faults.append(Fault(path[kind], "there is no PCI function %s on this host" % path[kind], fix))
        if path["gpu"] in known and path["nic"] in known:
            more, wrong = _of_path(path["gpu"], path["nic"], policy, known, pcie)
            faults += wrong
            for bridge, mask in more.items():
                try:
                    found[bridge] = both(found.get(bridge, "x" * 7), mask)
                except ValueError:
                    text = "the bridge %s is on two paths that need different ACS bits: %s and %s"
                    fix = "list only paths of one kind"
                    faults.append(Fault(bridge, text % (bridge, found[bridge], mask), fix))
    return found, faults


def _of_path(
    gpu: str, nic: str, policy: str, known: Mapping[str, Function], pcie: Mapping[str, Pcie]
) -> Tuple[Dict[str, str], List[Fault]]:
    up_gpu, up_nic = above(gpu, known), above(nic, known)
    bridges = list(dict.fromkeys([*up_nic, *up_gpu]))
    unread = [b for b in (*bridges,) if b not in pcie]
    if not bridges:
        return {}, [Fault(nic, "%s and %s hang on no bridge at all" % (gpu, nic), "leave this path out")]
    if unread:
        text = "the registers of the bridge %s above %s could not be read" % (unread[0], nic)
        return {}, [Fault(nic, text, "run with become: true: without privilege only 64 bytes are given")]
    with_acs = [b for b in bridges if pcie[b]["acs"] is not None]
    if policy == BARE_METAL:
        return dict.fromkeys(with_acs, OPEN), []
    nic_port, gpu_port = _turn(up_nic, up_gpu), _turn(up_gpu, up_nic)
    direct = known[nic]["vendor"] == "0x15b3" and known[nic]["device"] in DIRECT_DEVICES
    found = dict.fromkeys(with_acs, ISOLATED)
    wanted = {nic_port: VM_NIC_PORT}
    if direct:
        wanted = {nic_port: DIRECT_NIC_PORT, gpu_port: DIRECT_GPU_PORT, up_nic[-1]: DIRECT_ROOT}
    for bridge, mask in wanted.items():
        acs = pcie[bridge]["acs"]
        lacking = mask if acs is None else _beyond(mask, acs["able"])
        if lacking:
            text = "the bridge %s above %s cannot do what is needed (%s): its ACS is able of %s"
            fix = "a switch without it cannot send translated requests straight to the GPU: leave this path out"
            able = "nothing" if acs is None else acs["able"]
            return {}, [Fault(bridge, text % (bridge, nic, mask, able), fix)]
        found[bridge] = mask
    return found, []


def _turn(side: Sequence[str], other: Sequence[str]) -> str:
    """The last bridge of one side before both meet; where requests turn towards the other."""
    own = [bridge for bridge in side if bridge not in other]
    return own[-1] if own else side[0]


def _beyond(mask: str, able: str) -> bool:
    return any(want == "1" and can == "0" for want, can in zip(mask, able))


def both(one: str, two: str) -> str:
    """Both masks at once; raises ValueError where they contradict each other."""
    out = []
    for a, b in zip(one, two):
        if "x" not in (a, b) and a != b:
            raise ValueError("%s and %s" % (one, two))
        out.append(b if a == "x" else a)
    return "".join(out)


def met(mask: str, enabled: str, able: str = "1111111") -> bool:
    """Whether the bits are as the mask wants; ones that the bridge cannot do do not count."""
    return all(want in ("x", have) or can == "0" for want, have, can in zip(mask, enabled, able))


def register(mask: str) -> Tuple[int, int]:
    """(value, bits that are written) of the control register."""
    return int(mask.replace("x", "0"), 2), int(mask.replace("0", "1").replace("x", "0"), 2)


def means(asked: str, policy: str, count: int, release: str, sealed: bool) -> str:
    """How the bits are set. asked: "auto", "kernel" or "runtime"; sealed: the kernel is locked down."""
    kernel = version(release)
    if asked == RUNTIME:
        return RUNTIME
    if kernel >= (6, 15) or (kernel >= (6, 11) and (count == 1 or sealed or asked == "kernel")):
        return KERNEL
    if policy == BARE_METAL and kernel >= (4, 19) and (asked == "kernel" or sealed or kernel < (6, 11)):
        return REDIR
    return KERNEL if asked == "kernel" else RUNTIME


def needing(found: Mapping[str, str], defaults: bool) -> Dict[str, str]:
    """Bridges that must be named to the kernel: not those that get their bits from it anyway."""
    return {bridge: mask for bridge, mask in sorted(found.items()) if not (defaults and mask == ISOLATED)}


def flag(how: str, found: Mapping[str, str]) -> str:
    """The flag of pci= that sets the masks."""
    if how == REDIR:
        return "disable_acs_redir=" + ";".join(sorted(found))
    return "config_acs=" + ";".join("%s@%s" % (mask, bridge) for bridge, mask in sorted(found.items()))


def unmet(found: Mapping[str, str], pcie: Mapping[str, Pcie]) -> Dict[str, Tuple[str, str]]:
    """{bridge: (enabled, mask)} of bridges whose bits are not as wanted."""
    wrong = {}
    for bridge, mask in sorted(found.items()):
        acs: Any = pcie[bridge]["acs"]
        if not met(mask, acs["enabled"], acs["able"]):
            wrong[bridge] = (acs["enabled"], mask)
    return wrong
