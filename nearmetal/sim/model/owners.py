"""Who sets up the network on a simulated host: systemd-networkd, NetworkManager, ifupdown, netplan.

Each reads its own files into the same list of links, which is then carried out with the kernel's rules of net.py.
Sources: systemd.network(5), systemd.netdev(5), networkctl(1); nm-settings-keyfile(5), nmcli(1);
interfaces(5), ifenslave's README.Debian; netplan-yaml(5).
"""

from __future__ import annotations

import configparser
import contextlib
import fnmatch
from dataclasses import dataclass, field
from typing import Any

from . import net, routes
from .errors import Refusal

State = dict[str, Any]
Files = Any


@dataclass
class Link:
    """What an owner wants of one device. kind: physical, bond, bridge, vlan. managed False: to be left alone."""

    name: str
    kind: str = "physical"
    options: dict[str, str] = field(default_factory=dict)
    master: str = ""
    addresses: list[str] = field(default_factory=list)
    gateway: str = ""
    mtu: int | None = None
    label: str = ""
    source: str = ""
    vlans: list[str] = field(default_factory=list)
    auto: bool = True


def links(state: State, files: Files) -> list[Link]:
    """Everything that the host's owner is told by its files, virtual devices first."""
    readers = {
        "networkd": networkd,
        "NetworkManager": network_manager,
        "ifupdown": ifupdown,
        "netplan": networkd,
    }
    found = readers[state["variant"]["owner"]](state, files)
    return sorted(found, key=lambda link: {"bond": 0, "bridge": 0, "vlan": 2}.get(link.kind, 1))


def ini(text: str) -> list[tuple[str, dict[str, list[str]]]]:
    """Sections in order, each with all values of each key."""
    found: list[tuple[str, dict[str, list[str]]]] = []
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("[") and line.endswith("]"):
            found.append((line[1:-1], {}))
        elif found and "=" in line and line[0] not in "#;":
            key, value = (part.strip() for part in line.split("=", 1))
            found[-1][1].setdefault(key, []).append(value)
    return found


NETWORKD = ("/etc/systemd/network", "/run/systemd/network", "/usr/lib/systemd/network")


def networkd(state: State, files: Files) -> list[Link]:
    """Links of .netdev and .network files; of files with one name that in /etc wins, then that in /run."""
    texts: dict[str, str] = {}
    for folder in reversed(NETWORKD):
        for name in files.names(folder):
            texts[name] = files.read_text(f"{folder}/{name}") or ""
            for part in files.names(f"{folder}/{name}.d"):
                texts[name] += "\n" + (files.read_text(f"{folder}/{name}.d/{part}") or "")
    found: dict[str, Link] = {}
    for file in sorted(texts):
        if file.endswith(".netdev"):
            link = _netdev(texts[file], file)
            if link is not None:
                found[link.name] = link
    for name in [*state["netdevs"], *(n for n in found if n not in state["netdevs"])]:
        for file in sorted(texts):
            if file.endswith(".network") and _matches(state, texts[file], name):
                link = found.setdefault(name, Link(name))
                _network(texts[file], link)
                link.source += texts[file]
                break
    return list(found.values())


def _netdev(text: str, file: str) -> Link | None:
    sections = ini(text)
    head = next((keys for name, keys in sections if name == "NetDev"), {})
    kind = head.get("Kind", [""])[-1]
    if "Name" not in head or kind not in ("bond", "bridge", "vlan"):
        return None
    link = Link(head["Name"][-1], kind, source=text)
    for name, keys in sections:
        if name == "Bond":
            known = {
                "Mode": "mode",
                "LACPTransmitRate": "lacp_rate",
                "TransmitHashPolicy": "xmit_hash_policy",
            }
            link.options.update({known[k]: v[-1] for k, v in keys.items() if k in known})
            if "MIIMonitorSec" in keys:
                link.options["miimon"] = str(milliseconds(keys["MIIMonitorSec"][-1]))
        elif name == "VLAN":
            link.options["vid"] = keys.get("Id", ["0"])[-1]
        elif name == "Bridge" and keys.get("VLANFiltering", ["no"])[-1] in ("yes", "1", "true"):
            link.options["vlan_filtering"] = "1"
    if "MTUBytes" in head:
        link.mtu = int(head["MTUBytes"][-1])
    return link


def milliseconds(text: str) -> int:
    """A time span of systemd: 100ms, 0.1, 1s."""
    units = {"ms": 1, "us": 0.001, "s": 1000, "sec": 1000}
    for unit in ("ms", "us", "sec", "s"):
        if text.endswith(unit):
            return int(float(text[: -len(unit)]) * units[unit])
    return int(float(text) * 1000)


def _matches(state: State, text: str, name: str) -> bool:
    head = next((keys for section, keys in ini(text) if section == "Match"), {})
    device = state["netdevs"].get(name)
    return bool(head) and all(
        _condition(device, name, key, [word for value in values for word in value.split()])
        for key, values in head.items()
    )


def _condition(device: dict[str, Any] | None, name: str, key: str, words: list[str]) -> bool:
    """One line of [Match]. Bonds and bridges have no permanent address."""
    if key == "Name":
        return any(fnmatch.fnmatchcase(name, word) for word in words)
    if device is None:
        return False
    if key == "PermanentMACAddress":
        return device["kind"] not in ("bond", "bridge") and device["perm_mac"] in [
            word.lower() for word in words
        ]
    if key == "MACAddress":
        return device["mac"] in [word.lower() for word in words]
    if key == "Path":
        return any(fnmatch.fnmatchcase(f"pci-{device['pci']}", word) for word in words)
    return key != "Driver" or device["kind"] in ("pf", "vf")


def _network(text: str, link: Link) -> None:
    for section, keys in ini(text):
        if section == "Network":
            link.master = (keys.get("Bond") or keys.get("Bridge") or [link.master])[-1]
            link.vlans += keys.get("VLAN", [])
            link.gateway = keys.get("Gateway", [link.gateway])[-1]
        if section in ("Network", "Address"):
            link.addresses += [word for word in keys.get("Address", []) if word]
        if section == "Link" and "MTUBytes" in keys:
            link.mtu = int(keys["MTUBytes"][-1])
        if section == "Link" and keys.get("Unmanaged", ["no"])[-1] in ("yes", "true", "1"):
            link.kind = "unmanaged"


def network_manager(state: State, files: Files) -> list[Link]:
    """Links of the keyfiles in system-connections."""
    found: list[Link] = []
    by_uuid: dict[str, str] = {}
    for folder in ("/usr/lib/NetworkManager/system-connections", "/etc/NetworkManager/system-connections"):
        for name in files.names(folder):
            text = files.read_text(f"{folder}/{name}") or ""
            parser = configparser.ConfigParser(interpolation=None, strict=False)
            with contextlib.suppress(configparser.Error):
                parser.read_string(text)
            if "connection" in parser:
                found.append(_profile(state, parser, text, by_uuid))
    for link in found:
        link.master = by_uuid.get(link.master, link.master)
    return [link for link in found if link.name]


def _profile(state: State, parser: configparser.ConfigParser, text: str, by_uuid: dict[str, str]) -> Link:
    head = parser["connection"]
    name = head.get("interface-name", "")
    mac = next(
        (parser[s].get("mac-address", "") for s in parser.sections() if s in ("ethernet", "802-3-ethernet")),
        "",
    ).lower()
    if mac:
        name = next(
            (n for n, d in state["netdevs"].items() if d["perm_mac"] == mac and d["kind"] in ("pf", "vf")), ""
        )
    if head.get("uuid"):
        by_uuid[head["uuid"]] = name
    link = Link(
        name,
        {"bond": "bond", "bridge": "bridge", "vlan": "vlan"}.get(head.get("type", ""), "physical"),
        source=text,
    )
    link.label = head.get("id", name)
    link.master = head.get("controller", head.get("master", ""))
    link.auto = head.get("autoconnect", "true") != "false"
    link.options["ports"] = head.get("autoconnect-ports", head.get("autoconnect-slaves", "-1"))
    for section in parser.sections():
        values = parser[section]
        if section == "bond":
            link.options.update(
                {k: v for k, v in values.items() if k in ("mode", "miimon", "lacp_rate", "xmit_hash_policy")}
            )
        if section in ("ipv4", "ipv6"):
            given = [v.split(",") for k, v in values.items() if k.startswith("address")]
            link.addresses += [one[0] for one in given]
            link.gateway = next(
                (one[1] for one in given if len(one) > 1), values.get("gateway", link.gateway)
            )
        if section == "vlan":
            link.options.update(vid=values.get("id", "0"), link=values.get("parent", ""))
        if section in ("ethernet", "802-3-ethernet") and values.get("mtu", "0") not in ("0", "auto"):
            link.mtu = int(values["mtu"])
    return link


def ifupdown(state: State, files: Files) -> list[Link]:
    """Links of /etc/network/interfaces and the files that it sources."""
    texts = [files.read_text("/etc/network/interfaces") or ""]
    texts += [
        files.read_text(f"/etc/network/interfaces.d/{n}") or ""
        for n in files.names("/etc/network/interfaces.d")
    ]
    found: dict[str, Link] = {}
    auto: set[str] = set()
    current: Link | None = None
    for text in texts:
        for raw in text.replace("\\\n", " ").splitlines():
            words = raw.split("#")[0].split()
            if not words:
                continue
            if words[0] in ("auto", "allow-auto", "allow-hotplug"):
                auto.update(words[1:])
            elif words[0] == "iface" and len(words) > 1:
                current = found.setdefault(words[1], Link(words[1]))
                current.source += raw
            elif words[0] in ("source", "source-directory", "mapping"):
                current = None
            elif current is not None:
                current.source += raw
                _stanza(current, words[0].replace("_", "-"), words[1:])
    for link in list(found.values()):
        link.auto = link.name in auto
        for slave in link.options.pop("slaves", "").split():
            if slave != "none":
                found.setdefault(slave, Link(slave)).master = link.name
    return [link for name, link in found.items() if name != "lo"]


def _stanza(link: Link, key: str, words: list[str]) -> None:
    value = " ".join(words)
    if key == "address":
        link.addresses.append(value if "/" in value else value + "/24")
    elif key == "gateway":
        link.gateway = value
    elif key == "mtu":
        link.mtu = int(value)
    elif key in ("bond-slaves", "slaves"):
        link.kind = "bond"
        link.options["slaves"] = value
    elif key == "bond-master":
        link.master = value
    elif key in ("bond-mode", "bond-miimon", "bond-lacp-rate", "bond-xmit-hash-policy"):
        link.kind = "bond"
        link.options[key[5:].replace("-", "_")] = value
    elif key in ("bridge-ports", "bridge_ports"):
        link.kind = "bridge"


def carry_out(state: State, files: Files, only: set[str] | None = None) -> list[str]:
    """Set the links up as the owner's files say; all of them, or those named. Returns complaints."""
    said: list[str] = []
    every = links(state, files)
    for link in every:
        if (only is None and link.auto) or (only is not None and link.name in only):
            try:
                _configure(state, link, every)
            except Refusal as err:
                said.append(f"{link.name}: {err}")
    return said


def _configure(state: State, link: Link, every: list[Link]) -> None:
    device = state["netdevs"].get(link.name)
    if link.kind == "unmanaged":
        return
    if device is None:
        device = _create(state, link, every)
        if device is None:
            return
    if link.name in state["bonds"]:
        wanted = {k: v for k, v in link.options.items() if k in ("miimon", "xmit_hash_policy")}
        net.change_bond(state, link.name, wanted)
    if device["master"] and device["master"] != link.master and link.kind != "vlan":
        net.release(state, link.name)
    if link.mtu is not None and not link.master:
        net.set_mtu(state, link.name, link.mtu)
    if link.master and link.master in state["netdevs"] and device["master"] != link.master:
        if link.master in state["bonds"]:
            net.set_up(state, link.name, False)
        net.enslave(state, link.name, link.master)
    net.set_up(state, link.name, True)
    device["addresses"] = list(dict.fromkeys(link.addresses))
    if link.gateway:
        state.setdefault("gateways", {})[link.name] = link.gateway
        routes.replace(state, ["default", "via", link.gateway, "dev", link.name])
    device["by"] = state["variant"]["owner"]


def _create(state: State, link: Link, every: list[Link]) -> dict[str, Any] | None:
    if link.kind == "bond":
        net.add_bond(
            state,
            link.name,
            {
                k: v
                for k, v in link.options.items()
                if k in ("mode", "miimon", "lacp_rate", "xmit_hash_policy")
            },
        )
        state["bonds"][link.name]["by"] = state["variant"]["owner"]
    elif link.kind == "bridge":
        net.new(state, link.name, "bridge", net.virtual_mac(state, link.name))
        state["bridges"][link.name] = {"vlan_filtering": int(link.options.get("vlan_filtering", "0"))}
    elif link.kind == "vlan":
        lower = link.options.get("link") or next(
            (other.name for other in every if link.name in other.vlans), ""
        )
        if lower not in state["netdevs"]:
            return None
        net.new(
            state,
            link.name,
            "vlan",
            state["netdevs"][lower]["mac"],
            link=lower,
            vid=int(link.options.get("vid", "0")),
        )
    else:
        return None
    made: dict[str, Any] = state["netdevs"][link.name]
    return made
