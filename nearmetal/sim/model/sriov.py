"""PFs, VFs and the drivers that hold them.

Sources: Linux drivers/pci/iov.c (sriov_numvfs_store, sriov_drivers_autoprobe), drivers/pci/pci-driver.c
(driver_override, new_id), drivers/base/bus.c (bind_store, unbind_store), drivers/vfio/vfio_main.c (a device without
a group), mlx5 core/sriov.c (VF settings are forgotten with the VFs).
"""

from __future__ import annotations

import errno
from typing import Any

from . import lag, net, osfiles
from .errors import Refusal, absent, busy, invalid
from .hardware import by_address, vf_address

State = dict[str, Any]

ZERO = net.ZERO
VF_DRIVER = {"mlx5": "mlx5_core", "igb": "igbvf"}
PF_DRIVER = {"mlx5": "mlx5_core", "igb": "igb"}
IGB_VFS = 7


def total(state: State, pf: str) -> int:
    """Value of sriov_totalvfs; 0: the function has no SR-IOV capability, so there is no such file."""
    known = state["pfs"][pf]
    if known["kind"] == "igb":
        return IGB_VFS
    firmware: dict[str, Any] = state["cards"][known["card"]]["firmware"]
    return int(firmware["NUM_OF_VFS"]["current"]) if firmware["SRIOV_EN"]["current"] else 0


def offset(state: State, pf: str) -> int:
    """First VF Offset: the VFs of a card follow its PFs, port by port."""
    known = state["pfs"][pf]
    if known["kind"] == "igb":
        return 128
    ports: int = len(state["cards"][known["card"]]["ports"])
    return ports + int(known["port"]) * (total(state, pf) - 1)


def set_count(state: State, pf: str, text: str) -> None:
    """A write to sriov_numvfs."""
    known = state["pfs"][pf]
    try:
        count = int(text.strip(), 0)
    except ValueError:
        raise invalid() from None
    if count < 0:
        raise invalid()
    if count > total(state, pf):
        raise Refusal(errno.ERANGE)
    if count == len(known["vfs"]):
        return
    if known["driver"] != PF_DRIVER[known["kind"]]:
        raise Refusal(errno.ENOENT)
    if count == 0:
        held = [vf["index"] for vf in known["vfs"] if vf["in_use"]]
        if held:
            # The real kernel waits until the guest gives the VF back; a simulated one cannot wait.
            raise busy(f"VFs {held} are held by guests")
        clear(state, pf)
        return
    if known["vfs"]:
        raise busy(f"{len(known['vfs'])} VFs already enabled. Disable before enabling {count} VFs")
    if not state["bios"]["sriov"]:
        state["dmesg"].append(f"{known['kind']} {pf}: not enough MMIO resources for SR-IOV")
        raise Refusal(errno.ENOMEM)
    known["vfs"] = [_new_vf(state, pf, index) for index in range(count)]
    represent(state, pf)
    for vf in known["vfs"]:
        if known["autoprobe"]:
            probe(state, vf["address"])
    lag.event(state, pf, "vfs")


def _new_vf(state: State, pf: str, index: int) -> dict[str, Any]:
    return {
        "index": index,
        "address": vf_address(pf, offset(state, pf), index),
        "driver": "",
        "override": "",
        "mac": ZERO,
        "hw_mac": _mac(state, pf, 0x80, index),
        "vlan": 0,
        "qos": 0,
        "proto": "802.1Q",
        "trust": False,
        "spoofchk": state["pfs"][pf]["kind"] == "igb",
        "link_state": "auto",
        "min_tx": 0,
        "max_tx": 0,
        "node_guid": "",
        "port_guid": "",
        "netdev": "",
        "in_use": "",
        "stale": False,
        "representor": "",
    }


def _mac(state: State, pf: str, kind: int, index: int) -> str:
    """An address that the driver makes up for a VF (0x80) or its representor (0xc0), unlike all others."""
    known = state["pfs"][pf]
    place = by_address(state["variant"]["gpu"])[pf].node << 4 | kind | known["port"]
    return f"02:{state['number'] >> 8:02x}:{state['number'] & 255:02x}:{place:02x}:{int(pf[5:7], 16):02x}:{index:02x}"


def clear(state: State, pf: str) -> None:
    """All VFs of a PF go, with their network devices, representors and settings."""
    known = state["pfs"][pf]
    for vf in known["vfs"]:
        net.remove(state, vf["netdev"])
        net.remove(state, vf["representor"])
        vf["driver"] = ""
    known["vfs"] = []
    lag.event(state, pf, "vfs")


def represent(state: State, pf: str) -> None:
    """Representors exist in switchdev mode, one for each VF, and only there."""
    known = state["pfs"][pf]
    wanted = known["esw"]["mode"] == "switchdev"
    for vf in known["vfs"]:
        if wanted and not vf["representor"]:
            name = _representor_name(state, pf, vf["index"])
            net.new(
                state,
                name,
                "rep",
                _mac(state, pf, 0xC0, vf["index"]),
                pf=pf,
                vf=vf["index"],
            )
            vf["representor"] = name
        elif not wanted and vf["representor"]:
            net.remove(state, vf["representor"])
            vf["representor"] = ""


def _representor_name(state: State, pf: str, index: int) -> str:
    base = osfiles.pf_name(state, pf).partition("np")[0]
    return f"{base}{'n' if state['port_suffix'] else ''}pf{state['pfs'][pf]['port']}vf{index}"


def find_vf(state: State, address: str) -> tuple[dict[str, Any], str] | None:
    """A VF and the address of its PF."""
    for pf, known in state["pfs"].items():
        for vf in known["vfs"]:
            if vf["address"] == address:
                return vf, pf
    return None


def matches(state: State, address: str, driver: str) -> bool:
    """Whether the driver would take the device: by override alone where one is set, else by its table of ids."""
    override = override_of(state, address)
    if override:
        return override == driver
    return natural(state, address) == driver


def natural(state: State, address: str) -> str:
    """The driver that claims such a device by its ids; "" where none does."""
    found = find_vf(state, address)
    if found:
        return VF_DRIVER[state["pfs"][found[1]]["kind"]]
    if address in state["pfs"]:
        return PF_DRIVER[state["pfs"][address]["kind"]]
    part = by_address(state["variant"]["gpu"]).get(address)
    if part is None:
        return ""
    claimed = next(
        (d for d, ids in state.get("new_ids", {}).items() if f"{part.vendor:04x} {part.device:04x}" in ids),
        "",
    )
    if claimed:
        return str(claimed)
    native = {"gpu": "nouveau", "audio": "snd_hda_intel", "port": "pcieport"}.get(part.kind, "")
    return native if native and native not in blacklisted(state) else ""


def blacklisted(state: State) -> set[str]:
    """Modules that were kept out at this boot."""
    return set(state["boot"].get("blacklist", ()))


def override_of(state: State, address: str) -> str:
    """driver_override of any function; "" where there is none."""
    found = find_vf(state, address)
    if found:
        return str(found[0]["override"])
    if address in state["pfs"]:
        return str(state["pfs"][address]["override"])
    return str(state["override"].get(address, ""))


def driver_of(state: State, address: str) -> str:
    """The driver that holds a function now."""
    found = find_vf(state, address)
    if found:
        return str(found[0]["driver"])
    if address in state["pfs"]:
        return str(state["pfs"][address]["driver"])
    return str(state["bound"].get(address, ""))


def exists(state: State, address: str) -> bool:
    """Whether there is such a function."""
    return address in by_address(state["variant"]["gpu"]) or find_vf(state, address) is not None


def set_override(state: State, address: str, text: str) -> None:
    """A write to driver_override; an empty line takes it away. It does not rebind."""
    name = text.strip()
    found = find_vf(state, address)
    if found:
        found[0]["override"] = name
    elif address in state["pfs"]:
        state["pfs"][address]["override"] = name
    elif name:
        state["override"][address] = name
    else:
        state["override"].pop(address, None)


def bind(state: State, driver: str, address: str) -> None:
    """A write to drivers/DRIVER/bind: ENODEV where the driver does not match, EBUSY where one holds it already."""
    if not exists(state, address) or not matches(state, address, driver):
        raise absent()
    if driver_of(state, address):
        raise busy()
    attach(state, driver, address)


def probe(state: State, address: str) -> None:
    """A write to drivers_probe, or what the kernel does with a new device: nothing where no driver is there for it."""
    if not exists(state, address):
        raise absent()
    if driver_of(state, address):
        return
    wanted = override_of(state, address) or natural(state, address)
    if wanted and wanted in loaded(state):
        attach(state, wanted, address)


def loaded(state: State) -> set[str]:
    """Drivers that the kernel has."""
    return {
        "mlx5_core",
        "igb",
        "igbvf",
        "pcieport",
        "nouveau",
        "snd_hda_intel",
        *state.get("modules", ()),
    } - blacklisted(state)


def attach(state: State, driver: str, address: str) -> None:
    """Give a device to a driver."""
    if driver == "vfio-pci" and not state["boot"].get("iommu"):
        state["dmesg"].append(f"vfio-pci {address}: probe with driver vfio-pci failed with error -22")
        raise invalid()  # vfio_group_find_or_alloc: no iommu_group
    found = find_vf(state, address)
    if found:
        _attach_vf(state, driver, *found)
    elif address in state["pfs"]:
        state["pfs"][address]["driver"] = driver
        if driver == PF_DRIVER[state["pfs"][address]["kind"]]:
            start_pf(state, address)
    else:
        state["bound"][address] = driver


def _attach_vf(state: State, driver: str, vf: dict[str, Any], pf: str) -> None:
    vf["driver"] = driver
    vf["stale"] = False
    if vf["mac"] != ZERO:
        vf["hw_mac"] = vf["mac"]  # the driver reads the vport's address when it starts
    if driver != VF_DRIVER[state["pfs"][pf]["kind"]]:
        return
    delay = float(state["faults"].get("vf-driver-slow", 0))
    if delay:
        state.setdefault("later", []).append(
            {"at": state["now"] + delay, "do": "vf_netdev", "address": vf["address"]}
        )
    else:
        vf_netdev(state, vf, pf)


def vf_netdev(state: State, vf: dict[str, Any], pf: str) -> None:
    """The network device of a VF that its driver has started."""
    if vf["netdev"] or vf["driver"] != VF_DRIVER[state["pfs"][pf]["kind"]]:
        return
    base = osfiles.pf_name(state, pf).partition("np")[0]
    vf["netdev"] = f"{base}v{vf['index']}"
    net.new(state, vf["netdev"], "vf", vf["hw_mac"], pci=vf["address"], pf=pf, vf=vf["index"])


def unbind(state: State, driver: str, address: str) -> None:
    """A write to drivers/DRIVER/unbind: ENODEV where it does not hold the device."""
    if not exists(state, address) or driver_of(state, address) != driver or not driver:
        raise absent()
    found = find_vf(state, address)
    if found:
        vf, _pf = found
        if vf["in_use"]:
            raise busy(f"VF {vf['index']} is held by a guest")  # the real kernel waits for it
        net.remove(state, vf["netdev"])
        vf.update(driver="", netdev="")
    elif address in state["pfs"]:
        stop_pf(state, address)
        state["pfs"][address]["driver"] = ""
    else:
        state["bound"].pop(address, None)


def start_pf(state: State, pf: str) -> None:
    """A PF's driver starts: eswitch in legacy mode, no VFs, a network device that is down."""
    known = state["pfs"][pf]
    known["esw"].update(mode="legacy", steering="dmfs", multiport=False)
    known["vfs"] = []
    known["netdev"] = osfiles.pf_name(state, pf)
    net.new(state, known["netdev"], "pf", known["mac"], pci=pf)


def stop_pf(state: State, pf: str) -> None:
    """A PF's driver ends: its VFs and its network device go."""
    known = state["pfs"][pf]
    clear(state, pf)
    net.remove(state, known["netdev"])
    known["netdev"] = ""
    if known["kind"] == "mlx5":
        lag.of(state, known["card"]).update(mode="none", bond="", shared_fdb=False)
