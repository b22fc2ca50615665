"""Faults that can be planted in a simulated host, and changes that somebody makes by hand."""

from __future__ import annotations

import fnmatch
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .model import boot, lag, net, osfiles, sriov
from .model.errors import Refusal
from .model.factory import UPGRADE
from .model.hardware import CARD_A
from .store import SimError

State = dict[str, Any]


@dataclass(frozen=True)
class Fault:
    """about: one line for the list. value: what may follow `=`; "" where nothing may. act: plants it."""

    about: str
    act: Callable[[Any, str], None]
    value: str = ""


def inject(machine: Any, text: str) -> None:
    """Plant NAME or NAME=VALUE. Raises SimError for a fault that does not exist, or a value that is none."""
    name, _equals, value = text.partition("=")
    fault = FAULTS.get(name)
    if fault is None:
        raise SimError(f"no such fault: {name}; there are: {', '.join(FAULTS)}")
    if value and not fault.value:
        raise SimError(f"{name} takes no value")
    try:
        fault.act(machine, value)
    except (ValueError, Refusal) as err:
        raise SimError(f"{name}: {err}") from None
    machine.files.changed()


def _mark(name: str, default: Any = True) -> Callable[[Any, str], None]:
    """A fault that is only remembered, and looked at where it matters."""

    def act(machine: Any, value: str) -> None:
        kind = type(default)
        machine.state["faults"][name] = kind(value) if value else default

    return act


def clear(machine: Any, value: str) -> None:
    """Take all planted faults away again; what they have done stays."""
    machine.state["faults"].clear()


def _lag_inactive(machine: Any, value: str) -> None:
    state = machine.state
    state["faults"]["lag-inactive"] = True
    for card in list(state["lag"]):
        lag.of(state, card).update(mode="none", shared_fdb=False, error="the firmware refuses")
        for pf in lag.pfs_of(state, card):
            pf["esw"]["multiport"] = False


def _vfs_removed(machine: Any, value: str) -> None:
    for pf in [value] if value else list(machine.state["pfs"]):
        if pf not in machine.state["pfs"]:
            raise ValueError(f"no PF {pf}")
        for vf in machine.state["pfs"][pf]["vfs"]:
            vf["in_use"] = ""
        sriov.clear(machine.state, pf)


def _vf_in_use(machine: Any, value: str) -> None:
    """A guest opens VFs: those named by address, else all that are bound to vfio-pci."""
    for pf in machine.state["pfs"].values():
        for vf in pf["vfs"]:
            if value == vf["address"] or not value and vf["driver"] == "vfio-pci":
                vf["in_use"] = "a guest"


def _vfs_bound(machine: Any, value: str) -> None:
    """Somebody binds all VFs to their network driver."""
    for pf in machine.state["pfs"].values():
        for vf in pf["vfs"]:
            if not vf["driver"]:
                sriov.attach(machine.state, sriov.VF_DRIVER[pf["kind"]], vf["address"])


def _lockdown(machine: Any, value: str) -> None:
    machine.state["boot"]["lockdown"] = "integrity"
    machine.state["faults"]["fw-lockdown"] = True


def _half_written(machine: Any, value: str) -> None:
    """A file is cut in half, as after a power loss under a program that does not write atomically."""
    path = value or next(
        (p for p in ("/etc/nearmetal/fabric.json", "/etc/default/grub") if machine.files.there(p)), ""
    )
    data = machine.files.read_text(path)
    if data is None:
        raise ValueError(f"there is no {path}")
    machine.files.write(path, data[: len(data) // 2])


def _after(name: str) -> Callable[[Any, str], None]:
    def act(machine: Any, value: str) -> None:
        machine.state["faults"][name] = machine.state["steps"] + int(value or "1")

    return act


def _sriov_off(machine: Any, value: str) -> None:
    machine.state["bios"]["sriov"] = False


def _iommu_off(machine: Any, value: str) -> None:
    machine.state["bios"]["iommu"] = False
    machine.restart(cold=True)


def _ports_renamed(machine: Any, value: str) -> None:
    """A kernel upgrade, and the reboot that goes with it: ens3f0 becomes ens3f0np0."""
    state = machine.state
    if UPGRADE not in state["kernels"]:
        state["kernels"].insert(0, UPGRADE)
    state["faults"]["rename-at-boot"] = True
    boot.update_grub(state, machine.files)
    machine.restart(cold=False)


def before_boot(state: State, files: Any) -> None:
    """What takes effect with the next boot."""
    if state["faults"].pop("rename-at-boot", None):
        state["port_suffix"] = True


def _path_breaks(machine: Any, value: str) -> None:
    machine.state["faults"]["mgmt-path-breaks"] = fabric(machine.state)


def path_broken(state: State) -> str:
    """With mgmt-path-breaks: the switch shuts the port while the fabric is other than when it was planted."""
    former = state["faults"].get("mgmt-path-breaks")
    return "the switch has shut the port of the management path" if former and former != fabric(state) else ""


def fabric(state: State) -> str:
    """A digest of VFs, eswitches and bonds: what a switch may take offence at."""
    facts = [
        {pf: [len(entry["vfs"]), entry["esw"]["mode"]] for pf, entry in state["pfs"].items()},
        {name: [bond["mode"], net.slaves(state, name)] for name, bond in state["bonds"].items()},
    ]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def _bond_by_operator(machine: Any, value: str) -> None:
    """Somebody else bonds the two ports of the first card, by hand and by a file of the network's owner."""
    state = machine.state
    name, mode = value or "bond-ops", "802.3ad"
    files = {
        "networkd": (
            "/etc/systemd/network/90-ops.netdev",
            f"[NetDev]\nName={name}\nKind=bond\n\n[Bond]\nMode={mode}\n",
        ),
        "NetworkManager": (
            f"/etc/NetworkManager/system-connections/{name}.nmconnection",
            f"[connection]\nid={name}\ntype=bond\ninterface-name={name}\n\n[bond]\nmode={mode}\n",
        ),
        "ifupdown": (
            f"/etc/network/interfaces.d/{name}",
            f"auto {name}\niface {name} inet manual\n    bond-mode {mode}\n    bond-slaves none\n",
        ),
        "netplan": (
            "/etc/netplan/90-ops.yaml",
            f"network:\n  version: 2\n  bonds:\n    {name}:\n      parameters:\n        mode: {mode}\n",
        ),
    }
    machine.files.write(*files[state["variant"]["owner"]])
    if name not in state["netdevs"]:
        net.add_bond(state, name, {"mode": mode, "miimon": "100"})
    state["bonds"][name]["by"] = "operator"
    for pf in state["cards"][CARD_A]["ports"]:
        device = state["pfs"][pf]["netdev"]
        net.set_up(state, device, False)
        net.enslave(state, device, name)
    net.set_up(state, name, True)


def _cable(up: bool) -> Callable[[Any, str], None]:
    def act(machine: Any, value: str) -> None:
        state = machine.state
        pf = value or f"{CARD_A}.0"
        if pf not in state["pfs"]:
            raise ValueError(f"no PF {pf}")
        state["pfs"][pf]["cable"] = up
        name = state["pfs"][pf]["netdev"]
        if name:
            net.refresh(state, state["netdevs"][name]["master"])
            lag.event(state, pf, "link")

    return act


def _power_cycle_needed(machine: Any, value: str) -> None:
    """A warm reboot no longer loads firmware settings, and the cards refuse to be reset."""
    for card in machine.state["cards"].values():
        card.update(warm_loads=False, fwreset=False)


def _warm(machine: Any, value: str) -> None:
    for card in machine.state["cards"].values():
        card["warm_loads"] = False


def _fwreset_refused(machine: Any, value: str) -> None:
    for card in machine.state["cards"].values():
        card["fwreset"] = False


def _management_down(machine: Any, value: str) -> None:
    net.set_up(machine.state, osfiles.MGMT_NAME, False)


def strikes(state: State) -> str:
    """Whether the step that is about to be made is the last one: "power", "kill" or ""."""
    planted = state["faults"]
    for name, fate in (("dies-at-step", "power"), ("program-dies-at-step", "kill")):
        if name in planted and state["steps"] >= planted[name]:
            del planted[name]
            return fate
    return ""


def hangs(state: State, argv: list[str]) -> bool:
    """Whether a command never ends: command-hangs=PATTERN matches its words from the program's name on."""
    pattern = state["faults"].get("command-hangs")
    words = " ".join([argv[0].rpartition("/")[2], *argv[1:]])
    return bool(pattern) and fnmatch.fnmatchcase(words, f"{pattern}*")


FAULTS: dict[str, Fault] = {
    "clear": Fault("take all planted faults away; what they did stays", clear),
    "lag-inactive": Fault("LAG ends and never comes back: the firmware refuses", _lag_inactive),
    "vfs-removed": Fault("all VFs are gone (sriov_numvfs 0), or those of one PF", _vfs_removed, "PF"),
    "vfs-bound": Fault("somebody binds all free VFs to their network driver", _vfs_bound),
    "vf-in-use": Fault("a guest holds a VF, or all that are bound to vfio-pci", _vf_in_use, "VF"),
    "vf-driver-slow": Fault(
        "network devices of VFs appear late, after 3 seconds", _mark("vf-driver-slow", 3.0), "SECONDS"
    ),
    "fw-lockdown": Fault("the kernel is locked down: no firmware query, no setpci", _lockdown),
    "fw-set-refused": Fault("the firmware takes no new settings", _mark("fw-set-refused")),
    "fw-warm-reboot-not-enough": Fault("a warm reboot no longer loads firmware settings", _warm),
    "fwreset-refused": Fault("cards refuse mstfwreset", _fwreset_refused),
    "fw-needs-power-cycle": Fault(
        "neither a warm reboot nor mstfwreset loads firmware settings", _power_cycle_needed
    ),
    "sriov-off-in-bios": Fault("SR-IOV is off in the BIOS: VFs cannot be made (ENOMEM)", _sriov_off),
    "iommu-off-in-bios": Fault("VT-d is off in the BIOS, after a power cycle", _iommu_off),
    "config-acs-misparsed": Fault(
        "the kernel takes only the first address of pci=config_acs=", _mark("config-acs-misparsed")
    ),
    "no-reboot": Fault("the host does not restart when asked to", _mark("no-reboot")),
    "ports-renamed": Fault("a kernel upgrade with its reboot: ens3f0 becomes ens3f0np0", _ports_renamed),
    "command-hangs": Fault(
        "commands that start with these words never end", _mark("command-hangs", "devlink"), "WORDS"
    ),
    "half-written-file": Fault("a file is cut in half", _half_written, "PATH"),
    "dies-at-step": Fault(
        "the host loses power instead of its K-th next change", _after("dies-at-step"), "K"
    ),
    "program-dies-at-step": Fault(
        "the program that makes the K-th next change is killed", _after("program-dies-at-step"), "K"
    ),
    "mgmt-path-breaks": Fault(
        "the management path is dead while VFs, eswitches and bonds are other than now", _path_breaks
    ),
    "mgmt-down": Fault("the management port is down", _management_down),
    "bond-by-operator": Fault("somebody bonds the ports of the first card", _bond_by_operator, "NAME"),
    "cable-out": Fault("a cable is pulled (of the first PF)", _cable(False), "PF"),
    "cable-in": Fault("it is plugged in again", _cable(True), "PF"),
    "lacp-silent": Fault("the switch no longer speaks LACP", _mark("lacp-silent")),
    "irq-stuck": Fault("one interrupt cannot be moved", _mark("irq-stuck")),
}
"""All faults by name."""
