# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole document: `observe(host)` is a pure function of the host's files."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import Dict, Tuple

from .. import bootloader, capabilities, secrets
from ..host import Host, HostError
from ..state import SCHEMA, Boot, State
from .confinement import contents, observe_confinement
from .fabric import observe_fabric
from .firmware import observe_firmware
from .kernel import observe_kernel, observe_kvm, observe_last_reboot, observe_os
from .memory import observe_memory
from .net import observe_net
from .pci import observe_iommu, observe_pci
from .pcie import observe_pcie
from .reader import Reader
from .topology import observe_cpu


def observe(host: Host, commands: bool = True) -> State:
    """The state document (see state.py) of a host, a tree or a snapshot. Never raises for what it reads.

    commands: whether to have what only commands say (fabric, firmware); a module on a host that does not need it
    spares the host the time.
    """
    reader = Reader(host)
    cpu = observe_cpu(reader)
    files = _files(reader)
    pci = observe_pci(reader, cpu["nodes"])
    state: State = {
        "schema": SCHEMA,
        "live": host.live,
        "os": observe_os(reader),
        "cpu": cpu,
        "memory": observe_memory(reader),
        "kernel": observe_kernel(reader),
        "boot": _boot(reader),
        "iommu": observe_iommu(reader),
        "pci": pci,
        "net": observe_net(reader),
        "confinement": {**observe_confinement(reader, []), "files": files},
        "kvm": observe_kvm(reader),
        "last_reboot": observe_last_reboot(reader),
        "files": files,
        "firmware": observe_firmware(host, pci) if commands and _carried("nic_firmware") else None,
        "pcie": observe_pcie(reader, pci),
        "unread": [],
    }
    if commands and (_carried("sriov") or _carried("vf_lag")):
        state["fabric"] = observe_fabric(reader, pci)
    state["unread"] = reader.unread()
    return state


def _carried(capability: str) -> bool:
    """Whether this program has the capability with it: a module on a host runs no commands for others."""
    try:
        importlib.import_module(capabilities.__name__ + "." + capability)
    except ImportError:
        return False
    return True


@functools.cache
def _capabilities() -> Tuple[Tuple[str, ...], Tuple[str, ...]]:
    """What the capabilities own (FILES) and want read besides (PROBE), in order.

    A module on a host carries only its own capability along; there only that one's files count.
    """
    owned: Dict[str, None] = {}
    wanted: Dict[str, None] = {}
    for module in pkgutil.iter_modules(capabilities.__path__):
        try:
            capability = importlib.import_module(capabilities.__name__ + "." + module.name)
        except ImportError:
            continue
        owned.update(dict.fromkeys(getattr(capability, "FILES", ())))
        wanted.update(dict.fromkeys(getattr(capability, "PROBE", ())))
    return tuple(owned), tuple(wanted)


def _files(reader: Reader) -> Dict[str, str]:
    """Contents of what the capabilities want read; /sys/fs/cgroup has its place in `confinement`."""
    owned, wanted = _capabilities()
    patterns = dict.fromkeys(p for p in (*owned, *wanted) if not p.startswith("/sys/fs/cgroup/"))
    found = contents(reader, [path for pattern in patterns for path in reader.glob(pattern)])
    return {path: secrets.hide(path, text) for path, text in found.items()}


def _boot(reader: Reader) -> Boot:
    """The `boot` section; its own observer raises for files that cannot be read."""
    try:
        return bootloader.observe(reader.host)
    except (HostError, bootloader.LoaderError) as err:
        reader.note("boot", str(err))
        return {"loader": "", "configured": None, "sealed": str(err), "sources": []}
