"""The factory state of a simulated server: what `sim reset` makes.

A state is plain JSON:
    schema, name, number (of the host, for MACs and serials), variant {...}
    clock       {"offset": s}  simulated time is the controller's time plus this
    boot        {"id", "count", "at", "cmdline", "release", "gone_until", "pending": ""|"warm"|"cold"|"off", "lockdown"}
    bios        {"sriov", "iommu"}
    hw          {"sockets", "cores" (of a socket), "threads", "memory_gib"}
    kernels     releases in /boot, newest first
    disk        {path: text | {"blob": digest} | {"link": target} | null}, over the factory files; null: removed
    volatile    the same for /run, /tmp, /dev: gone after a boot
    modes       {path: mode} of files that are not 0644
    registers   {bdf: {"acs", "ats", "devctl"}}
    bound       {bdf: driver}, override {bdf: driver}: of functions other than PFs and VFs
    cards       {"0000:17:00": {"kind", "model", "part", "serial", "psid", "ports": [bdf], "warm_loads": bool,
                "fwreset": bool, "firmware": {NAME: {"default", "current", "next"}}}}
    pfs         {bdf: {"card", "port", "kind", "node", "mac", "netdev", "driver", "override", "autoprobe", "vfs": [VF],
                "esw": {"mode", "steering", "inline", "encap", "multiport"}, "tc_offload", "guid"}}
    VF          {"index", "address", "driver", "override", "mac", "hw_mac", "vlan", "qos", "proto", "trust", "spoofchk",
                "link_state", "min_tx", "max_tx", "node_guid", "port_guid", "netdev", "in_use", "stale", "representor"}
    netdevs     {name: {"kind": pf|vf|rep|bond|bridge|vlan, "pci", "pf", "vf", "mac", "perm_mac", "mtu", "up", "cable",
                "master", "index", "addresses": [cidr], "link": lower device of a VLAN, "vid"}}
    bonds       {name: {"mode", "miimon", "lacp_rate", "xmit_hash_policy", "active", "partner", "lacp"}}
    bridges     {name: {"vlan_filtering"}};  vlans {port: [{"vid", "pvid", "untagged"}]}
    ovs         {"config": {...}, "bridges": {name: {"ports": {name: tag|null}}}} | null
    lag         {card: {"mode": none|roce|switchdev|multiport_eswitch, "shared_fdb", "bond", "wedged", "error"}}
    dmesg       [text]
    pages       {"NODE/KB": [total, used]};  cpusets {unit: cpulist}
    irqs        {"default": cpulist, "affinity": {number: cpulist}}
    units       {name: {"active": active|inactive|failed, "enabled": bool, "result": text}};  timers {name: {...}}
    faults      {name: value};  steps: how many changes were made since the last reset
"""

from __future__ import annotations

import uuid
import zlib
from typing import Any

from . import osfiles
from .hardware import CARD_A, CARD_B, CARD_C, IGB2, MGMT, parts
from .pciconfig import default_registers

State = dict[str, Any]

SCHEMA = 1
KERNEL, UPGRADE = "6.12.43-amd64", "6.12.57-amd64"

VARIANT: dict[str, Any] = {
    "owner": "networkd",  # networkd | NetworkManager | ifupdown | netplan: who sets up the network
    "management": "own",  # own: a port of the I350; pf: the first PF carries the management address as well
    "gpu": "h100",  # h100 | l40s
    "devlink": "pci",  # pci | auxiliary: how devlink names the ports of mlx5
    "tool": "mstflint",  # mstflint | mft: whose firmware tools are installed
    "ovs": True,  # whether Open vSwitch is installed and runs
    "lacp": True,  # whether the switch speaks LACP on the fabric ports
    "warm_loads": True,  # whether a warm reboot loads new firmware settings
    "fwreset": True,  # whether the cards can be reset by mstfwreset
    "infiniband": False,  # whether the second card is an InfiniBand one
    "cores": 32,  # of a socket
    "memory_gib": 1024,
    "vfs": 8,  # NUM_OF_VFS ex works
    "sriov": True,  # SRIOV_EN ex works
}
"""What may differ between servers, with the default: `sim reset --variant KEY=VALUE`, or variable nearmetal_sim."""

FIRMWARE: dict[str, Any] = {
    "SRIOV_EN": True,
    "NUM_OF_VFS": 8,
    "PF_TOTAL_SF": 0,
    "LINK_TYPE_P1": "ETH(2)",
    "LINK_TYPE_P2": "ETH(2)",
    "LAG_RESOURCE_ALLOCATION": "DEVICE_DEFAULT(0)",
    "ATS_ENABLED": False,
    "ADVANCED_PCI_SETTINGS": False,
    "PCI_WR_ORDERING": "per_mkey(0)",
    "MAX_ACC_OUT_READ": 0,
    "CQE_COMPRESSION": "BALANCED(0)",
    "KEEP_ETH_LINK_UP_P1": True,
    "LLDP_NB_DCBX_P1": False,
    "ROCE_CONTROL": "ROCE_ENABLE(2)",
    "NUM_OF_PF": 2,
    "UCTX_EN": True,
    "PF_BAR2_ENABLE": False,
}
"""Settings of a ConnectX-7 as mlxconfig shows them. Words with a number are choices."""

MODEL, PART_NUMBER, PSID = "ConnectX-7", "MCX755106AS-HEAT", "MT_0000000834"
NAME = "NVIDIA ConnectX-7 HHHL adapter Card, 200GbE / NDR200 IB, Dual-port QSFP112, PCIe 5.0 x16"


def make(name: str, number: int, now: float, variant: dict[str, Any] | None = None) -> State:
    """A new server. variant: over VARIANT. Raises ValueError for an unknown key."""
    chosen = {**VARIANT, **(variant or {})}
    unknown = sorted(set(chosen) - set(VARIANT))
    if unknown:
        raise ValueError(f"no such variant: {', '.join(unknown)}; there are: {', '.join(VARIANT)}")
    state: State = {
        "schema": SCHEMA,
        "name": name,
        "number": number,
        "variant": chosen,
        "clock": {"offset": 0.0},
        "boot": {
            "id": "",
            "count": 0,
            "at": now,
            "cmdline": "",
            "release": KERNEL,
            "gone_until": 0.0,
            "pending": "cold",
        },
        "bios": {"sriov": True, "iommu": True},
        "hw": {"sockets": 2, "cores": chosen["cores"], "threads": 2, "memory_gib": chosen["memory_gib"]},
        "kernels": [KERNEL],
        "port_suffix": False,
        "disk": {},
        "volatile": {},
        "modes": {},
        "registers": {part.address: default_registers(part) for part in parts(chosen["gpu"])},
        "bound": {},
        "override": {},
        "cards": {},
        "pfs": {},
        "netdevs": {},
        "bonds": {},
        "bridges": {},
        "vlans": {},
        "ovs": {"config": {}, "bridges": {}} if chosen["ovs"] else None,
        "lag": {},
        "dmesg": [],
        "pages": {},
        "cpusets": {},
        "irqs": {"default": "", "affinity": {}},
        "units": {},
        "timers": {},
        "faults": {},
        "steps": 0,
    }
    _cards(state)
    state["disk"].update(osfiles.first(state))
    return state


def number_of(name: str) -> int:
    """A number for a host by its name, for MACs and serials: stable, and different for all names of a rack."""
    return zlib.crc32(name.encode()) & 0xFFFF


def new_boot_id(state: State) -> str:
    """Random as the kernel's, but the same for the same host and boot: runs can be compared."""
    return str(
        uuid.uuid5(uuid.NAMESPACE_DNS, f"{state['name']}/{state['boot']['count']}/{state['boot']['at']}")
    )


def mac(state: State, vendor: str, last: int) -> str:
    """A MAC of this host; `last` tells its devices apart."""
    number = state["number"]
    return f"{vendor}:{number >> 8:02x}:{number & 255:02x}:{last:02x}"


def _cards(state: State) -> None:
    variant = state["variant"]
    for at, (card, ports) in enumerate(((CARD_A, 2), (CARD_B, 1), (CARD_C, 1))):
        settings = {
            **FIRMWARE,
            "NUM_OF_VFS": variant["vfs"],
            "SRIOV_EN": variant["sriov"],
            "NUM_OF_PF": ports,
        }
        if variant["infiniband"] and card == CARD_B:
            settings["LINK_TYPE_P1"] = "IB(1)"
        if ports == 1:
            settings = {key: value for key, value in settings.items() if not key.endswith("_P2")}
        state["cards"][card] = {
            "kind": "mlx5",
            "model": MODEL,
            "part": PART_NUMBER,
            "psid": PSID,
            "serial": f"MT25{state['number']:05d}{at:02d}",
            "ports": [f"{card}.{port}" for port in range(ports)],
            "firmware": {
                key: {"default": value, "current": value, "next": value} for key, value in settings.items()
            },
            "warm_loads": variant["warm_loads"],
            "fwreset": variant["fwreset"],
        }
        for port in range(ports):
            _pf(state, f"{card}.{port}", card, port, "mlx5", mac(state, "b8:ce:f6", at * 16 + port))
    for port, address in enumerate((MGMT, IGB2)):
        _pf(state, address, "0000:02:00", port, "igb", mac(state, "a0:36:9f", port))


def _pf(state: State, address: str, card: str, port: int, kind: str, hardware: str) -> None:
    state["pfs"][address] = {
        "card": card,
        "port": port,
        "kind": kind,
        "node": 1 if card in (CARD_B, CARD_C) else 0,
        "mac": hardware,
        "netdev": "",
        "driver": "",
        "override": "",
        "autoprobe": True,
        "vfs": [],
        "tc_offload": False,
        "cable": True,
        "esw": {"mode": "legacy", "steering": "dmfs", "inline": "none", "encap": "basic", "multiport": False},
        "guid": hardware.replace(":", "")[:6] + "0300" + hardware.replace(":", "")[6:],
    }
