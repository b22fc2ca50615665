# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PFs, VFs, bonds, bridges: the `fabric` section. Works from sysfs alone where no command was run."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..fabric_boot.guardnote import NOTE as GUARD_NOTE
from ..fabric_boot.guardnote import guard_state, read_note
from ..fabric_boot.owners import owner_of
from ..host import HostError, Missing, Unreadable
from ..state import Fabric, FabricBond, Function, Guard, Managers, Ovs, Pf, Vf
from .eswitch import (
    MLX5,
    NO_ESWITCH,
    devlink_name,
    hw_tc_offload,
    observe_bridges,
    observe_eswitch,
    observe_lag,
    observe_ovs,
)
from .links import REPRESENTOR, Link, ask, observe_links, vf_attributes
from .management import observe_management
from .managers import COMMANDS as MANAGERS_COMMANDS
from .managers import PROBE as MANAGERS_PROBE
from .managers import observe_managers
from .pci import DEVICES
from .reader import Reader

UNITS = ("nearmetal-fabric-early.service", "nearmetal-fabric-late.service")
GUARD = "nearmetal-guard.timer"
LIBVIRT = "/run/libvirt/qemu"

OTHER_OWNERS = {
    "/etc/sriov-operator": "sriov-network-operator",
    "/var/lib/sriov/sriov_config.yaml": "sriov-network-operator",
    "/etc/systemd/system/sriov-config.service": "sriov-network-operator",
    "/etc/systemd/system/sriov-config-post-network.service": "sriov-network-operator",
    "/var/lib/os-net-config/sriov_config.yaml": "os-net-config",
    "/etc/systemd/system/sriov_config.service": "os-net-config",
}
"""What their configuration daemons leave on a host (their sources: pkg/consts/constants.go; os_net_config/common.py)."""

OTHER_CONFIG = (
    ("netplan", "/etc/netplan/*.yaml", re.compile(r"^\s*(virtual-function-count|embedded-switch-mode)\s*:", re.MULTILINE)),
    ("NetworkManager", "/etc/NetworkManager/system-connections/*", re.compile(r"^\[sriov\]", re.MULTILINE)),
    ("systemd-networkd", "/etc/systemd/network/*.link", re.compile(r"^SR-IOVVirtualFunctions\s*=", re.MULTILINE)),
    ("udev", "/etc/udev/rules.d/*.rules", re.compile(r"^[^#\n]*sriov_numvfs", re.MULTILINE)),
)
"""Files in which somebody else may have asked for VFs, and the words for it."""

PROBE: Tuple[str, ...] = (
    "/sys/class/net/*/phys_port_name",
    "/sys/class/net/*/phys_switch_id",
    "/sys/kernel/debug/mlx5/*/lag/state",
    "/sys/kernel/debug/mlx5/*/lag/type",
    "/sys/kernel/debug/mlx5/*/lag/members",
    "/proc/net/route",
    "/proc/net/ipv6_route",
    LIBVIRT + "/*.xml",
    *("/etc/systemd/system/" + unit for unit in (*UNITS, GUARD)),
    *(path + "/*" if path == "/etc/sriov-operator" else path for path in OTHER_OWNERS),
    *(pattern for _owner, pattern, _words in OTHER_CONFIG),
    *MANAGERS_PROBE,
    GUARD_NOTE,
)

COMMANDS: Tuple[Tuple[str, ...], ...] = (
    ("ip", "-j", "-d", "link", "show"),
    ("ip", "-j", "addr", "show"),
    ("devlink", "-j", "dev", "eswitch", "show", "pci/{mlx5}"),
    ("devlink", "-j", "dev", "param", "show", "pci/{mlx5}", "name", "flow_steering_mode"),
    ("devlink", "-j", "dev", "param", "show", "pci/{mlx5}", "name", "esw_multiport"),
    ("ethtool", "-k", "{pfnet}"),
    ("bridge", "-j", "vlan", "show"),
    ("ovs-vsctl", "--format=json", "--columns=name,ports", "list", "Bridge"),
    ("ovs-vsctl", "--format=json", "--columns=name,tag,_uuid", "list", "Port"),
    ("ovs-vsctl", "get", "Open_vSwitch", ".", "other_config"),
    ("printenv", "SSH_CONNECTION"),
    *(("systemctl", "is-active", unit) for unit in (*UNITS, GUARD)),
    *MANAGERS_COMMANDS,
)
"""For the capabilities' COMMANDS: what this observer asks."""

VF_ATTRIBUTES = (
    "mac", "vlan", "qos", "proto", "trust", "spoofchk", "link_state", "min_tx_rate", "max_tx_rate", "node_guid", "port_guid",
)  # fmt: skip

KERNEL_VF_DRIVERS = frozenset(("mlx5_core", "igbvf", "ixgbevf", "iavf", "bnxt_en", "ice", "i40evf"))


def observe_fabric(reader: Reader, functions: Sequence[Function]) -> Fabric:
    """The section; `functions` is the `pci` section of the same document."""
    nics = [f for f in functions if f["class"].startswith("0x02") and not f["physfn"]]
    links = observe_links(reader, commands=bool(nics))
    ovs = observe_ovs(reader, links) if nics else None
    owners = _guests(reader) if any(f["physfn"] for f in functions) else {}
    view = _View(reader, links, ovs, functions, owners)
    managers = observe_managers(reader)
    return {
        "pfs": [view.pf(function) for function in nics],
        "bonds": [_bond(link, links, managers) for link in links.values() if link["kind"] == "bond"],
        "bridges": observe_bridges(reader, links),
        "ovs": ovs,
        "management": observe_management(reader, links, ovs),
        "other_owners": _other_owners(reader) if nics else {},
        "units": _units(reader),
        "guard": _guard(reader),
        "managers": managers,
    }


class _View:
    """What is needed to put PFs and VFs together."""

    def __init__(
        self, reader: Reader, links: Dict[str, Link], ovs: Optional[Ovs], functions: Sequence[Function],
        guests: Dict[str, str],
    ) -> None:  # fmt: skip
        self.reader, self.links, self.ovs, self.guests = reader, links, ovs, guests
        self.bridges = {b["name"]: b for b in observe_bridges(Reader(reader.host), links)}
        self.functions = {f["address"]: f for f in functions}
        self.vfs: Dict[str, List[str]] = {}
        for f in functions:
            if f["physfn"]:
                self.vfs.setdefault(f["physfn"], []).append(f["address"])

    def devices(self, address: str) -> List[Link]:
        """Devices of a function, representors of a PF's VFs included."""
        names = {*self.functions[address]["netdevs"], *(x["name"] for x in self.links.values() if x["pci"] == address)}
        return [self.links[name] for name in sorted(names) if name in self.links]

    def pf(self, function: Function) -> Pf:
        address = function["address"]
        devices = self.devices(address)
        uplink = next((d for d in devices if not REPRESENTOR.match(d["port_name"])), None)
        mlx5 = function["driver"] == MLX5
        master = uplink["master"] if uplink else ""
        sriov = function["sriov_total"] > 0
        pf: Pf = {
            "address": address,
            "driver": function["driver"],
            "netdev": uplink["name"] if uplink else "",
            "port_name": uplink["port_name"] if uplink else "",
            "mac": uplink["permanent"].lower() if uplink else "",
            "serial": _serial(self.reader, address),
            "card": address.rpartition(".")[0],
            "numa_node": function["numa_node"],
            "sriov_total": function["sriov_total"],
            "sriov_vfs": function["sriov_vfs"],
            "sriov_capable": None if function["capabilities"] is None else "sriov" in function["capabilities"],
            "autoprobe": self._autoprobe(address) if sriov else None,
            "mtu": uplink["mtu"] if uplink else None,
            "up": uplink["up"] if uplink else None,
            "carrier": uplink["carrier"] if uplink else None,
            "bond": master if master in self.links and self.links[master]["kind"] == "bond" else "",
            "master": master,
            "addresses": uplink["addresses"] if uplink else [],
            "eswitch": observe_eswitch(self.reader, address) if mlx5 else dict(NO_ESWITCH),  # type: ignore[typeddict-item]
            "devlink": devlink_name(address) if mlx5 else "",
            "switch_id": uplink["switch_id"] if uplink else "",
            "hw_tc_offload": hw_tc_offload(ask(self.reader, ("ethtool", "-k", uplink["name"]))) if uplink and mlx5 else None,
            "lag": observe_lag(self.reader, address) if mlx5 else None,
            "vfs": [],
        }
        told = {v["vf"]: vf_attributes(v) for v in (uplink["vfs"] if uplink else None) or () if "vf" in v}
        reps = {int(m.group(2)): d for d in devices for m in [REPRESENTOR.match(d["port_name"])] if m}
        pf["vfs"] = [self._vf(at, a, told.get(at, {}), reps.get(at)) for at, a in self._numbered(address)]
        return pf

    def _autoprobe(self, address: str) -> Optional[bool]:
        text = self.reader.text("%s/%s/sriov_drivers_autoprobe" % (DEVICES, address), "fabric")
        return None if text is None else text != "0"

    def _numbered(self, pf: str) -> List[Tuple[int, str]]:
        """VFs with their numbers: by the PF's links virtfnN, else in the order of their addresses.

        That is the same: VF n has the routing id First VF Offset + n * VF Stride (PCI Express, SR-IOV capability).
        """
        addresses = sorted(self.vfs.get(pf, ()))
        named = []
        for at in range(len(addresses)):
            target = self.reader.link("%s/%s/virtfn%d" % (DEVICES, pf, at)).rpartition("/")[2]
            if target not in addresses:
                return list(enumerate(addresses))
            named.append((at, target))
        return named

    def _vf(self, index: int, address: str, told: Mapping[str, Any], rep: Optional[Link]) -> Vf:
        function = self.functions[address]
        device = next(iter(self.devices(address)), None)
        vf: Dict[str, Any] = {
            "index": index,
            "address": address,
            "driver": function["driver"],
            "driver_override": self._override(address),
            "netdev": device["name"] if device else "",
            "netdev_mac": device["permanent"].lower() if device else "",
            **{key: told.get(key) for key in VF_ATTRIBUTES},
            "mtu": device["mtu"] if device else None,
            "in_use": self._in_use(address, function["driver"], device),
            "representor": rep["name"] if rep else "",
            "representor_mtu": rep["mtu"] if rep else None,
            "representor_up": rep["up"] if rep else None,
            "representor_master": self._master(rep) if rep else "",
            "representor_vlan": self._vlan(rep) if rep else None,
        }
        return vf  # type: ignore[return-value]

    def _override(self, address: str) -> Optional[str]:
        text = self.reader.text("%s/%s/driver_override" % (DEVICES, address), "fabric")
        return None if text is None else "" if text == "(null)" else text

    def _in_use(self, address: str, driver: str, device: Optional[Link]) -> Optional[str]:
        """A vfio device is enabled while somebody has it open (vfio_pci_core_enable, _disable)."""
        if not driver:
            return ""
        if driver not in KERNEL_VF_DRIVERS:
            if address in self.guests:
                return "VM %s" % self.guests[address]
            opened = self.reader.number("%s/%s/enable" % (DEVICES, address), "fabric")
            return None if opened is None else "a guest that has it open" if opened else ""
        if device is None:
            return "another network namespace" if self.reader.host.live else None
        return device["master"] or ", ".join(device["addresses"])

    def _master(self, rep: Link) -> str:
        for bridge in self.ovs["bridges"] if self.ovs else ():
            if any(port["name"] == rep["name"] for port in bridge["ports"]):
                return bridge["name"]
        return rep["master"]

    def _vlan(self, rep: Link) -> Optional[int]:
        for bridge in self.ovs["bridges"] if self.ovs else ():
            for port in bridge["ports"]:
                if port["name"] == rep["name"]:
                    return port["tag"] or 0
        for entry in self.bridges[rep["master"]]["ports"] if rep["master"] in self.bridges else ():
            if entry["name"] == rep["name"]:
                return entry["pvid"] or 0
        return None


def _serial(reader: Reader, address: str) -> str:
    try:
        return vpd_serial(reader.host.read_bytes("%s/%s/vpd" % (DEVICES, address)))
    except (Missing, Unreadable):
        return ""


def vpd_serial(data: bytes) -> str:
    """The SN of the read-only part (tag 0x90) of vital product data: PCI Local Bus 3.0, appendix I."""
    at = 0
    while at < len(data):
        tag = data[at]
        if tag & 0x80:
            if at + 3 > len(data):
                break
            size, start = data[at + 1] | data[at + 2] << 8, at + 3
        else:
            size, start = tag & 7, at + 1
            if tag >> 3 == 0x0F:
                break
        if tag == 0x90:
            return _vpd_field(data[start : start + size], b"SN")
        at = start + size
    return ""


def _vpd_field(part: bytes, name: bytes) -> str:
    at = 0
    while at + 3 <= len(part):
        size = part[at + 2]
        if part[at : at + 2] == name:
            return part[at + 3 : at + 3 + size].decode("ascii", "replace").strip(" \0")
        at += 3 + size
    return ""


def _bond(link: Link, links: Mapping[str, Link], managers: Managers) -> FabricBond:
    """A bond; who makes it at boot is told by the files that name it, ours included."""
    claims = [c for c in managers["claims"] if c["kind"] == "bond" and c["device"] == link["name"]]
    named = re.compile(r"(\d\d-)?nearmetal-%s(\.(netdev|network|nmconnection|yaml))?\Z" % re.escape(link["name"]))
    own = [path for path in managers["own"] if named.match(path.rpartition("/")[2])]
    data = link["data"]
    slaves = sorted(other["name"] for other in links.values() if other["master"] == link["name"])
    ad = data.get("ad_info") or {}
    return {
        "name": link["name"],
        "mode": str(data.get("mode", "")),
        "slaves": slaves,
        "active_slave": str(data.get("active_slave", "")),
        "miimon": data.get("miimon"),
        "lacp_rate": data.get("ad_lacp_rate"),
        "xmit_hash_policy": data.get("xmit_hash_policy"),
        "mii_status": "" if link["carrier"] is None else "up" if link["carrier"] else "down",
        "mtu": link["mtu"],
        "up": link["up"],
        "mac": link["mac"].lower(),
        "addresses": link["addresses"],
        "partner_mac": str(ad.get("partner_mac", "")),
        "owner": owner_of(own[0]) if own else claims[0]["owner"] if claims else "",
        "owner_files": own or [c["file"] for c in claims],
        "master": link["master"],
    }


_HOSTDEV = re.compile(
    r"<hostdev\b[^>]*>.*?<source>.*?<address domain='0x([0-9a-f]+)' bus='0x([0-9a-f]+)' slot='0x([0-9a-f]+)' "
    r"function='0x([0-7])'", re.DOTALL,
)  # fmt: skip


def _guests(reader: Reader) -> Dict[str, str]:
    """Address to the name of the running guest that has it, from libvirt's own status files."""
    found = {}
    for path in reader.glob(LIBVIRT + "/*.xml"):
        text = Reader(reader.host).text(path, "fabric") or ""
        name = re.search(r"<name>([^<]+)</name>", text)
        for words in _HOSTDEV.findall(text) if name else ():
            address = "%04x:%02x:%02x.%x" % tuple(int(word, 16) for word in words)
            found[address] = name.group(1) if name else ""
    return found


def _other_owners(reader: Reader) -> Dict[str, str]:
    found: Dict[str, str] = {}
    for path, owner in OTHER_OWNERS.items():
        if owner not in found and reader.exists(path):
            found[owner] = path
    for owner, pattern, words in OTHER_CONFIG:
        for path in reader.glob(pattern):
            text = reader.text(path, "fabric")
            said = words.search(text) if text else None
            if said and owner not in found:
                found[owner] = "%s: %s" % (path, said.group(0).strip())
    return found


def _units(reader: Reader) -> Dict[str, str]:
    found = {}
    for unit in UNITS:
        if not reader.exists("/etc/systemd/system/" + unit):
            found[unit] = "absent"
            continue
        found[unit] = _active(reader, unit)
    return found


def _active(reader: Reader, unit: str) -> str:
    """What `systemctl is-active` says ("" where nobody asked); its exit status is 0 for "active" only."""
    try:
        return reader.host.run(["systemctl", "is-active", unit]).stdout.strip()
    except HostError:
        return ""


def _guard(reader: Reader) -> Optional[Guard]:
    if not reader.host.live:
        return None
    try:
        note = read_note(reader.host)
    except HostError as err:
        reader.note("fabric", str(err))
        return None
    said = reader.text("/proc/sys/kernel/random/boot_id", "fabric") or ""
    return guard_state(note, _active(reader, GUARD) in ("active", "activating"), said)
