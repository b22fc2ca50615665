"""/proc, /sys and debugfs as far as they change: drivers, VFs, network devices, IOMMU, pages, interrupts."""

from __future__ import annotations

import errno
from typing import Any

from . import eswitch, lag, net, pciconfig, routes, sriov
from .hardware import Part, by_address, cpus_of, folder, parts
from .layer import Layer
from .sysstatic import ranges

State = dict[str, Any]

BUS = "/sys/bus/pci"
SPEEDS = {"mlx5": 200000, "igb": 1000}


def layer(state: State) -> Layer:
    """The layer of this moment."""
    found = Layer()
    _pci(found, state)
    _vfs(found, state)
    _iommu(found, state)
    for name in state["netdevs"]:
        _netdev(found, state, name)
    masters = " ".join(state["bonds"])
    found.file("/sys/class/net/bonding_masters", masters + "\n" if masters else "\n")
    _lags(found, state)
    found.file("/proc/net/route", routes.table(state))
    found.file("/proc/net/ipv6_route", "")
    return found


def registers_of(state: State, part: Part) -> bytes:
    """A function's configuration space now."""
    firmware, numbers = None, (0, 0, 0)
    known = state["pfs"].get(part.address)
    if known is not None:
        total = sriov.total(state, part.address)
        numbers = (len(known["vfs"]), total, sriov.offset(state, part.address) if total else 0)
        card = state["cards"].get(known["card"])
        firmware = {key: value["current"] for key, value in card["firmware"].items()} if card else None
    return pciconfig.build(part, state["registers"][part.address], firmware, numbers)


def _pci(found: Layer, state: State) -> None:
    gpu = state["variant"]["gpu"]
    for part in parts(gpu):
        base = folder(part.address, gpu)
        driver = sriov.driver_of(state, part.address)
        _driver(found, base, driver)
        found.file(f"{base}/uevent", _uevent(part, part.address, driver))
        found.file(f"{base}/driver_override", (sriov.override_of(state, part.address) or "(null)") + "\n")
        found.file(f"{base}/config", lambda part=part: registers_of(state, part))  # type: ignore[misc]
        if not part.is_bridge:
            found.file(f"{base}/reset", errno.EACCES)
        if part.address not in state["pfs"]:
            continue
        known = state["pfs"][part.address]
        card = state["cards"].get(known["card"])
        if card:
            found.file(f"{base}/vpd", pciconfig.vpd(card["model"], card["part"], card["serial"]))
        total = sriov.total(state, part.address)
        if total:
            found.file(f"{base}/sriov_totalvfs", f"{total}\n")
            found.file(f"{base}/sriov_numvfs", f"{len(known['vfs'])}\n")
            found.file(f"{base}/sriov_drivers_autoprobe", f"{int(known['autoprobe'])}\n")
            found.file(f"{base}/sriov_offset", f"{sriov.offset(state, part.address)}\n")
            found.file(f"{base}/sriov_stride", "1\n")
            found.file(f"{base}/sriov_vf_device", f"{0x101E if known['kind'] == 'mlx5' else 0x1520:04x}\n")
        for vf in known["vfs"]:
            found.link(f"{base}/virtfn{vf['index']}", f"../{vf['address']}")


def _uevent(part: Part, address: str, driver: str, device: int = 0) -> str:
    head = f"DRIVER={driver}\n" if driver else ""
    return (
        f"{head}PCI_CLASS={part.class_:X}\nPCI_ID={part.vendor:04X}:{device or part.device:04X}\n"
        f"PCI_SUBSYS_ID={part.subsystem[0]:04X}:{part.subsystem[1]:04X}\nPCI_SLOT_NAME={address}\n"
    )


def _driver(found: Layer, base: str, driver: str) -> None:
    if driver:
        up = "../" * (base.count("/") - 1)
        found.link(f"{base}/driver", f"{up}bus/pci/drivers/{driver}")
        address = base.rpartition("/")[2]
        found.link(f"{BUS}/drivers/{driver}/{address}", f"../../../..{base.removeprefix('/sys')}")


def vf_folder(state: State, pf: str, address: str) -> str:
    """A VF's folder lies beside that of its PF."""
    return folder(pf, state["variant"]["gpu"]).rpartition("/")[0] + "/" + address


def _vfs(found: Layer, state: State) -> None:
    known, numbers = by_address(state["variant"]["gpu"]), groups(state)
    for pf, entry in state["pfs"].items():
        part, device = known[pf], 0x101E if entry["kind"] == "mlx5" else 0x1520
        for vf in entry["vfs"]:
            base = vf_folder(state, pf, vf["address"])
            found.link(f"{BUS}/devices/{vf['address']}", "../../.." + base.removeprefix("/sys"))
            _driver(found, base, vf["driver"])
            for name, text in (
                ("uevent", _uevent(part, vf["address"], vf["driver"], device)),
                ("class", f"0x{part.class_:06x}\n"),
                ("vendor", f"0x{part.vendor:04x}\n"),
                ("device", f"0x{device:04x}\n"),
                ("numa_node", f"{part.node}\n"),
                ("local_cpulist", ranges(cpus_of(state["hw"], part.node)) + "\n"),
                ("driver_override", (vf["override"] or "(null)") + "\n"),
                (
                    "enable",
                    f"{int(bool(vf['in_use']) if vf['driver'] == 'vfio-pci' else bool(vf['driver']))}\n",
                ),
            ):
                found.file(f"{base}/{name}", text)
            found.file(f"{base}/config", lambda part=part: pciconfig.vf_config(part))  # type: ignore[misc]
            found.file(f"{base}/reset", errno.EACCES)
            found.link(f"{base}/physfn", f"../{pf}")
            if vf["driver"] == "vfio-pci":
                found.file(f"/dev/vfio/{numbers.get(vf['address'])}", errno.EBUSY if vf["in_use"] else "")


def groups(state: State) -> dict[str, int]:
    """IOMMU group of each function: its own, as all bridges can redirect (ACS); a GPU and its audio share one."""
    if not state["boot"].get("iommu"):
        return {}
    found: dict[str, int] = {}
    by_slot: dict[str, int] = {}
    number = -1
    for part in parts(state["variant"]["gpu"]):
        slot = part.address.rpartition(".")[0]
        if part.kind not in ("gpu", "audio") or slot not in by_slot:
            number += 1
        found[part.address] = by_slot[slot] = number
    for entry in state["pfs"].values():
        for vf in entry["vfs"]:
            number += 1
            found[vf["address"]] = number
    return found


def _iommu(found: Layer, state: State) -> None:
    found.folder("/sys/class/iommu")
    found.folder("/sys/kernel/iommu_groups")
    gpu, by_pf = (
        state["variant"]["gpu"],
        {vf["address"]: pf for pf, e in state["pfs"].items() for vf in e["vfs"]},
    )
    if not state["boot"].get("iommu"):
        return
    for unit in range(2 * state["hw"]["sockets"]):
        found.link(f"/sys/class/iommu/dmar{unit}", f"../../devices/virtual/iommu/dmar{unit}")
        found.folder(f"/sys/devices/virtual/iommu/dmar{unit}")
    for address, group in groups(state).items():
        base = vf_folder(state, by_pf[address], address) if address in by_pf else folder(address, gpu)
        place = f"/sys/kernel/iommu_groups/{group}"
        found.file(f"{place}/type", "identity\n" if state["boot"]["passthrough"] else "DMA-FQ\n")
        found.link(f"{place}/devices/{address}", f"../../../..{base.removeprefix('/sys')}")
        found.link(f"{base}/iommu_group", "../" * (base.count("/") - 1) + f"kernel/iommu_groups/{group}")


def _netdev(found: Layer, state: State, name: str) -> None:
    device = state["netdevs"][name]
    base = netdev_folder(state, name)
    found.link(f"/sys/class/net/{name}", "../.." + base.removeprefix("/sys"))
    state_word = "unknown" if device["kind"] == "lo" else net.operstate(state, name)
    for key, value in (
        ("address", device["mac"]),
        ("mtu", device["mtu"]),
        ("operstate", state_word),
        ("ifindex", device["index"]),
        ("type", "32" if _infiniband(state, device) else "1"),
        ("flags", hex(0x1002 | int(device["up"]))),
    ):
        found.file(f"{base}/{key}", f"{value}\n")
    found.file(f"{base}/carrier", f"{int(net.carrier(state, name))}\n" if device["up"] else errno.EINVAL)
    found.file(f"{base}/speed", _speed(state, name, device))
    if device["master"]:
        target = netdev_folder(state, device["master"])
        found.link(f"{base}/master", "../" * (base.count("/") - 1) + target.removeprefix("/sys/"))
    if device["pci"]:
        found.link(f"{base}/device", "../../../" + device["pci"])
    port, switch = errno.EOPNOTSUPP, errno.EOPNOTSUPP
    _ports(found, state, base, device, port, switch)
    if name in state["bonds"]:
        _bond(found, state, name, base)


def _ports(found: Layer, state: State, base: str, device: dict[str, Any], port: Any, switch: Any) -> None:
    pf = device["pci"] if device["kind"] == "pf" else device["pf"] if device["kind"] == "rep" else ""
    if pf and state["pfs"][pf]["kind"] == "mlx5":
        number = state["pfs"][pf]["port"]
        port = f"pf{number}vf{device['vf']}\n" if device["kind"] == "rep" else f"p{number}\n"
        shown = eswitch.switch_id(state, pf)
        switch = shown + "\n" if shown else errno.EOPNOTSUPP
    found.file(f"{base}/phys_port_name", port)
    found.file(f"{base}/phys_switch_id", switch)


def _infiniband(state: State, device: dict[str, Any]) -> bool:
    pf = device["pci"] if device["kind"] == "pf" else device["pf"]
    return bool(pf) and eswitch.link_type(state, state["pfs"][pf]) == "infiniband"


def netdev_folder(state: State, name: str) -> str:
    """Below its PCI function; virtual devices have a place of their own, representors lie with their PF."""
    device = state["netdevs"][name]
    if device["kind"] == "pf":
        return f"{folder(device['pci'], state['variant']['gpu'])}/net/{name}"
    if device["kind"] == "vf":
        return f"{vf_folder(state, device['pf'], device['pci'])}/net/{name}"
    if device["kind"] == "rep":
        return f"{folder(device['pf'], state['variant']['gpu'])}/net/{name}"
    return f"/sys/devices/virtual/net/{name}"


def _speed(state: State, name: str, device: dict[str, Any]) -> Any:
    pf = device["pci"] if device["kind"] == "pf" else device["pf"]
    if not device["up"] or not pf or not net.carrier(state, name):
        return errno.EINVAL
    return f"{SPEEDS[state['pfs'][pf]['kind']]}\n"


def _bond(found: Layer, state: State, name: str, base: str) -> None:
    entry = state["bonds"][name]
    number = net.MODES.index(entry["mode"])
    policy = net.POLICIES.index(entry["xmit_hash_policy"])
    lines = {
        "mode": f"{entry['mode']} {number}",
        "slaves": " ".join(net.slaves(state, name)),
        "miimon": str(entry["miimon"]),
        "active_slave": entry["active"],
        "mii_status": net.operstate(state, name),
        "lacp_rate": "fast 1" if entry["lacp_rate"] == "fast" else "slow 0",
        "xmit_hash_policy": f"{entry['xmit_hash_policy']} {policy}",
    }
    if entry["mode"] == "802.3ad":
        lines["ad_partner_mac"] = net.partner(state, name)
        lines["ad_num_ports"] = str(
            len(net.slaves(state, name)) if net.partner(state, name) != net.ZERO else 1
        )
        lines["ad_aggregator"] = "1"
    for key, value in lines.items():
        found.file(f"{base}/bonding/{key}", value + "\n")
    for slave in net.slaves(state, name):
        place = netdev_folder(state, slave) + "/bonding_slave"
        up = net.carrier(state, slave)
        backup = entry["mode"] == "active-backup" and slave != entry["active"]
        found.file(f"{place}/mii_status", "up\n" if up else "down\n")
        found.file(f"{place}/state", "backup\n" if backup else "active\n")
        found.file(f"{place}/perm_hwaddr", state["netdevs"][slave]["perm_mac"] + "\n")


def _lags(found: Layer, state: State) -> None:
    for pf, known in state["pfs"].items():
        if known["kind"] == "mlx5" and known["driver"] == "mlx5_core":
            found.folder(f"/sys/kernel/debug/mlx5/{pf}")
            for name, text in lag.debugfs(state, pf).items():
                found.file(f"/sys/kernel/debug/mlx5/{pf}/lag/{name}", errno.EINVAL if text is None else text)
