"""Power and boots of a simulated host: what is lost, what firmware loads, what the command line does.

Sources: Documentation/admin-guide/kernel-parameters.rst (hugepages=, isolcpus=, irqaffinity=, pci=,
modprobe.blacklist=), drivers/pci/pci.c (disable_acs_redir, config_acs; a port's ACS is set up where the IOMMU is on).
"""

from __future__ import annotations

import shlex
from contextlib import suppress
from typing import Any

from . import firmware, grub, net, osfiles, pciconfig, sriov, udev
from .errors import Refusal
from .factory import new_boot_id
from .hardware import by_address, cpus_of, parts

State = dict[str, Any]
Files = Any

SIZES = {"4K": 4, "2M": 2048, "1G": 1048576}
UNITS = ("init.scope", "system.slice", "user.slice", "machine.slice")


def down(state: State, cold: bool) -> None:
    """The power goes, or the kernel ends: everything that lives in memory is lost; firmware loads what it loads."""
    for pf in state["pfs"].values():
        pf.update(vfs=[], driver="", netdev="", override="", autoprobe=True, tc_offload=False)
    state.update(
        volatile={},
        netdevs={},
        bonds={},
        bridges={},
        vlans={},
        lag={},
        dmesg=[],
        pages={},
        cpusets={},
        timers={},
        bound={},
        override={},
        irqs={"default": "", "affinity": {}},
        later=[],
        routes=[],
        gateways={},
        modules=[],
        new_ids={},
    )
    state["units"] = {
        name: {"enabled": entry["enabled"]} for name, entry in state["units"].items() if "enabled" in entry
    }
    for registers in state["registers"].values():
        registers.update(acs=0, ats=0)
    if cold:
        for part in parts(state["variant"]["gpu"]):
            state["registers"][part.address] = pciconfig.default_registers(part)
    for card, entry in state["cards"].items():
        if cold or entry["warm_loads"]:
            firmware.load(state, card)


def kernel(state: State, files: Files) -> None:
    """GRUB chooses, the kernel starts, udev announces the devices. Raises GrubError where nothing can be booted."""
    env = files.read_text("/boot/grub/grubenv") or ""
    release, line = grub.booted(files.read_text("/boot/grub/grub.cfg") or "", env)
    if "next_entry=" in env:
        files.write("/boot/grub/grubenv", grub.without_next(env))
    boot = state["boot"]
    boot["count"] += 1
    boot.update(cmdline=line, release=release, at=state["now"], pending="")
    boot["id"] = new_boot_id(state)
    boot.setdefault("lockdown", "none")
    words = arguments(line)
    boot["iommu"] = state["bios"]["iommu"] and "on" in [w.split(",")[0] for w in words.get("intel_iommu", [])]
    boot["passthrough"] = "pt" in words.get("iommu", []) or "1" in words.get("iommu.passthrough", [])
    boot["blacklist"] = sorted(_blacklist(words, files))
    state["ovs"] = state["ovs"] and {"config": state["ovs"]["config"], "bridges": state["ovs"]["bridges"]}
    state["irqs"]["default"] = (words.get("irqaffinity") or [""])[-1]
    state["modules"] = sorted(modules(files))
    state["new_ids"] = vfio_ids(words, files)
    _pages(state, line)
    _acs(state, words)
    net.new(state, "lo", "lo", "00:00:00:00:00:00", up=True, mtu=65536)
    udev.announce(state, files)
    for pf in sorted(state["pfs"]):
        sriov.probe(state, pf)
    for part in parts(state["variant"]["gpu"]):
        if part.address not in state["pfs"]:
            with suppress(Refusal):
                sriov.probe(state, part.address)


def arguments(line: str) -> dict[str, list[str]]:
    """Values of each kernel argument, in order; quotes taken off."""
    found: dict[str, list[str]] = {}
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    for word in words:
        key, _equals, value = word.partition("=")
        found.setdefault(key.replace("-", "_"), []).append(value)
    return found


def _blacklist(words: dict[str, list[str]], files: Files) -> set[str]:
    names = {
        name
        for key in ("modprobe.blacklist", "module_blacklist")
        for v in words.get(key, [])
        for name in v.split(",")
    }
    for file in files.names("/etc/modprobe.d"):
        for line in (files.read_text(f"/etc/modprobe.d/{file}") or "").splitlines():
            parts_ = line.split()
            if (
                parts_[:1] == ["blacklist"]
                and len(parts_) > 1
                or parts_[:1] == ["install"]
                and parts_[2:] in (["/bin/true"], ["/bin/false"])
            ):
                names.add(parts_[1])
    return {name.replace("-", "_") for name in names if name}


def modules(files: Files) -> set[str]:
    """Modules that are loaded at boot."""
    found: set[str] = set()
    for folder in ("/etc/modules-load.d", "/usr/lib/modules-load.d"):
        for file in files.names(folder):
            text = files.read_text(f"{folder}/{file}") or ""
            found.update(line.strip() for line in text.splitlines() if line.strip() and line[0] not in "#;")
    return {name.replace("_", "-") if name.startswith("vfio") else name for name in found}


def vfio_ids(words: dict[str, list[str]], files: Files) -> dict[str, list[str]]:
    """Ids that vfio-pci was told to take: vfio-pci.ids=, and options of modprobe.d where it is loaded early."""
    ids = [
        i
        for key in ("vfio_pci.ids", "vfio-pci.ids")
        for v in words.get(key.replace("-", "_"), [])
        for i in v.split(",")
    ]
    for file in files.names("/etc/modprobe.d"):
        for line in (files.read_text(f"/etc/modprobe.d/{file}") or "").splitlines():
            parts_ = line.split()
            if parts_[:1] == ["options"] and len(parts_) > 2 and parts_[1].replace("_", "-") == "vfio-pci":
                ids += [i for word in parts_[2:] if word.startswith("ids=") for i in word[4:].split(",")]
    found = [" ".join(i.split(":")[:2]).lower() for i in ids if ":" in i]
    return {"vfio-pci": found} if found else {}


def node_kb(state: State) -> int:
    """Memory of a NUMA node in kB."""
    return int(state["hw"]["memory_gib"]) * 1048576 // int(state["hw"]["sockets"])


def _pages(state: State, line: str) -> None:
    """Pools of the boot arguments: each hugepages= belongs to the hugepagesz= before it; "0:64,1:128" is by node."""
    sockets = state["hw"]["sockets"]
    state["pages"] = {f"{node}/{size}": [0, 0] for node in range(sockets) for size in (2048, 1048576)}
    size, default = "2M", "2M"
    for word in line.split():
        key, _equals, value = word.partition("=")
        if key == "default_hugepagesz":
            default = size = value
        elif key == "hugepagesz":
            size = value
        elif key == "hugepages" and SIZES.get(size or default):
            for item in value.split(","):
                node, colon, count = item.rpartition(":")
                if colon:
                    set_pages(state, int(node), SIZES[size], int(count))
                else:
                    for at in range(sockets):
                        share = int(count) // sockets + (at < int(count) % sockets)
                        set_pages(state, at, SIZES[size], share)


def set_pages(state: State, node: int, size: int, count: int) -> int:
    """Fill a pool as far as its node's memory goes; never below the pages in use. Returns what there is."""
    pool = state["pages"].get(f"{node}/{size}")
    if pool is None:
        return 0
    other = sum(
        total * int(key.split("/")[1])
        for key, (total, _used) in state["pages"].items()
        if key.startswith(f"{node}/") and key != f"{node}/{size}"
    )
    most = max(0, int(node_kb(state) * 0.96) - other) // size
    pool[0] = max(min(count, most), pool[1])
    return int(pool[0])


def _acs(state: State, words: dict[str, list[str]]) -> None:
    """ACS of all ports: on where the IOMMU is on, then as pci=disable_acs_redir= and pci=config_acs= say."""
    known = by_address(state["variant"]["gpu"])
    for address, part in known.items():
        if pciconfig.has_acs(part):
            state["registers"][address]["acs"] = pciconfig.ACS_ISOLATED if state["boot"]["iommu"] else 0
    for option in [o for value in words.get("pci", []) for o in value.split(",")]:
        if option.startswith("disable_acs_redir="):
            for address in option.partition("=")[2].split(";"):
                if address in known:
                    state["registers"][address]["acs"] &= ~0x2C
        elif option.startswith("config_acs="):
            items = option.partition("=")[2].split(";")
            if "config-acs-misparsed" in state["faults"]:
                items = items[:1]  # Linux after 47c8846a49ba: only the first of several addresses counts
            for item in items:
                bits, at, address = item.partition("@")
                if at and address in known and pciconfig.has_acs(known[address]):
                    state["registers"][address]["acs"] = masked(state["registers"][address]["acs"], bits)


def masked(value: int, bits: str) -> int:
    """config_acs: the last character is bit 0; 0 clears, 1 sets, x leaves."""
    for at, char in enumerate(reversed(bits)):
        if char in "01":
            value = value & ~(1 << at) | int(char) << at
    return value


def update_grub(state: State, files: Files) -> None:
    """Write grub.cfg anew. Raises GrubError."""
    texts = [files.read_text("/etc/default/grub") or ""]
    names = [name for name in files.names("/etc/default/grub.d") if name.endswith(".cfg")]
    texts += [files.read_text(f"/etc/default/grub.d/{name}") or "" for name in names]
    files.write("/boot/grub/grub.cfg", grub.generate(texts, state["kernels"], osfiles.ROOT_UUID))


def all_cpus(state: State) -> list[int]:
    """Every CPU."""
    return sorted(cpu for node in range(state["hw"]["sockets"]) for cpu in cpus_of(state["hw"], node))
