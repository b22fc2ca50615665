"""netplan on a simulated host: its YAML becomes files of systemd-networkd. Source: netplan-yaml(5)."""

from __future__ import annotations

from typing import Any

State = dict[str, Any]
Files = Any


def generate(state: State, files: Files) -> str:
    """Netplan generate: its YAML becomes files of networkd below /run. "" or what is wrong."""
    import yaml

    merged: dict[str, Any] = {}
    for folder in ("/usr/lib/netplan", "/etc/netplan", "/run/netplan"):
        for name in files.names(folder):
            if name.endswith(".yaml"):
                try:
                    document = yaml.safe_load(files.read_text(f"{folder}/{name}") or "") or {}
                except yaml.YAMLError as err:
                    return f"{folder}/{name}: Error in network definition: {err}"
                _merge(merged, document.get("network", {}))
    for name in files.names("/run/systemd/network"):
        if name.startswith("10-netplan-"):
            files.unlink(f"/run/systemd/network/{name}")
    for path, text in _files(merged).items():
        files.write(f"/run/systemd/network/{path}", text)
    return ""


def _merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def _files(network: dict[str, Any]) -> dict[str, str]:
    masters: dict[str, tuple[str, str]] = {}
    lowers: dict[str, list[str]] = {}
    for kind in ("bonds", "bridges"):
        for name, data in network.get(kind, {}).items():
            masters.update({member: (kind[:-1].capitalize(), name) for member in data.get("interfaces", [])})
    for name, data in network.get("vlans", {}).items():
        lowers.setdefault(data.get("link", ""), []).append(name)
    found = {}
    for kind in ("ethernets", "bonds", "bridges", "vlans"):
        for name, data in network.get(kind, {}).items():
            match = data.get("match", {})
            words = (
                [f"PermanentMACAddress={match['macaddress']}"]
                if "macaddress" in match
                else [f"Name={match.get('name', name)}"]
            )
            lines = ["[Match]", *words, "", "[Network]"]
            lines += [f"Address={cidr}" for cidr in data.get("addresses", [])]
            lines += [f"{key}={above}" for key, above in [masters[name]]] if name in masters else []
            lines += [
                f"Gateway={route['via']}"
                for route in data.get("routes", [])
                if route.get("to") in ("default", "0.0.0.0/0")
            ]
            lines += [f"VLAN={vlan}" for vlan in lowers.get(name, [])]
            lines += ["", "[Link]", f"MTUBytes={data['mtu']}"] if "mtu" in data else []
            found[f"10-netplan-{name}.network"] = "\n".join(lines) + "\n"
            if kind != "ethernets":
                found[f"10-netplan-{name}.netdev"] = _netdev(kind[:-1], name, data)
    return found


def _netdev(kind: str, name: str, data: dict[str, Any]) -> str:
    lines = ["[NetDev]", f"Name={name}", f"Kind={kind}"]
    given = data.get("parameters", {})
    if kind == "bond":
        lines += ["", "[Bond]", f"Mode={given.get('mode', 'balance-rr')}"]
        keys = (("lacp-rate", "LACPTransmitRate"), ("transmit-hash-policy", "TransmitHashPolicy"))
        lines += [f"{word}={given[key]}" for key, word in keys if key in given]
        if "mii-monitor-interval" in given:
            text = str(given["mii-monitor-interval"])
            lines.append(f"MIIMonitorSec={text if text.endswith('s') else text + 'ms'}")
    if kind == "vlan":
        lines += ["", "[VLAN]", f"Id={data.get('id', 0)}"]
    return "\n".join(lines) + "\n"
