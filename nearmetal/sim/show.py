"""The true state of a simulated host, as a document and in words."""

from __future__ import annotations

from typing import Any

from .machine import Machine, management_path
from .model import boot, eswitch, lag, net, osfiles, sriov, systemd

State = dict[str, Any]


def document(machine: Machine) -> dict[str, Any]:
    """What the model holds, not what nearmetal believes."""
    state = machine.state
    lags = {card: _lag(state, card) for card in state["cards"] if lag.supported(state, card)}
    first: dict[str, Any] = next(iter(lags.values()), {"state": "disabled", "type": None, "members": []})
    return {
        "host": state["name"],
        "variant": state["variant"],
        "kernel": state["boot"]["release"],
        "cmdline": state["boot"]["cmdline"],
        "boot_id": state["boot"]["id"],
        "boots": state["boot"]["count"],
        "reachable": not machine.reachable(),
        "management": {
            "device": next(
                (n for n, d in state["netdevs"].items() if osfiles.address(state)[0] in d["addresses"]), ""
            ),
            "problem": management_path(state),
        },
        "pfs": [_pf(state, pf) for pf in sorted(state["pfs"])],
        "vfs": [_vf(state, pf, vf) for pf in sorted(state["pfs"]) for vf in state["pfs"][pf]["vfs"]],
        "bonds": [_bond(state, name) for name in state["bonds"]],
        "bridges": [
            {"name": n, "ports": net.slaves(state, n), **entry} for n, entry in state["bridges"].items()
        ],
        "vlans": state["vlans"],
        "ovs": state["ovs"],
        "lag": first,
        "lags": lags,
        "firmware": {card: entry["firmware"] for card, entry in state["cards"].items()},
        "hugepages": {key: total for key, (total, _used) in state["pages"].items()},
        "iommu": {
            "on": bool(state["boot"].get("iommu")),
            "passthrough": bool(state["boot"].get("passthrough")),
        },
        "acs": {bdf: r["acs"] for bdf, r in state["registers"].items() if r["acs"]},
        "units": state["units"],
        "timers": state["timers"],
        "faults": state["faults"],
        "steps": state["steps"],
        "bios": state["bios"],
        "dmesg": state["dmesg"],
    }


def _lag(state: State, card: str) -> dict[str, Any]:
    entry = lag.of(state, card)
    active = entry["mode"] != "none"
    members = state["cards"][card]["ports"]
    return {
        "state": "active" if active else "disabled",
        "type": entry["mode"] if active else None,
        "members": members,
        "bond": entry["bond"],
        "shared_fdb": entry["shared_fdb"],
        "error": entry["error"],
        "wedged": entry["wedged"],
    }


def _pf(state: State, pf: str) -> dict[str, Any]:
    known = state["pfs"][pf]
    device = state["netdevs"].get(known["netdev"], {})
    card = state["cards"].get(known["card"], {})
    return {
        "address": pf,
        "driver": known["driver"],
        "netdev": known["netdev"],
        "port": known["port"],
        "mac": known["mac"],
        "serial": card.get("serial", ""),
        "numa_node": known["node"],
        "sriov_total": sriov.total(state, pf),
        "sriov_vfs": len(known["vfs"]),
        "autoprobe": known["autoprobe"],
        "mtu": device.get("mtu"),
        "up": device.get("up", False),
        "carrier": bool(device) and net.carrier(state, known["netdev"]),
        "master": device.get("master", ""),
        "addresses": device.get("addresses", []),
        "eswitch": dict(known["esw"]),
        "switch_id": eswitch.switch_id(state, pf) or "",
        "hw_tc_offload": known["tc_offload"],
    }


def _vf(state: State, pf: str, vf: dict[str, Any]) -> dict[str, Any]:
    device = state["netdevs"].get(vf["netdev"], {})
    representor = state["netdevs"].get(vf["representor"], {})
    return {
        "pf": pf,
        **vf,
        "mtu": device.get("mtu"),
        "representor_mtu": representor.get("mtu"),
        "representor_up": representor.get("up"),
        "representor_master": representor.get("master", ""),
    }


def _bond(state: State, name: str) -> dict[str, Any]:
    device = state["netdevs"][name]
    return {
        "name": name,
        **state["bonds"][name],
        "slaves": net.slaves(state, name),
        "up": device["up"],
        "mtu": device["mtu"],
        "mac": device["mac"],
        "master": device["master"],
        "addresses": device["addresses"],
        "partner_mac": net.partner(state, name),
        "carrier": net.carrier(state, name),
    }


def _up(shown: dict[str, Any]) -> str:
    return "up" if shown["carrier"] else "down"


def words(shown: dict[str, Any]) -> list[str]:
    """The same for a reader: the fabric first."""
    lines = [
        f"{shown['host']}: {'' if shown['reachable'] else 'not '}reachable, {shown['kernel']}, boot {shown['boots']}"
    ]
    lines.append(f"  command line: {shown['cmdline']}")
    for pf in shown["pfs"]:
        esw = pf["eswitch"]
        lines.append(
            f"  {pf['address']} {pf['netdev'] or '-'} ({pf['driver'] or 'no driver'}) {_up(pf)}, mtu {pf['mtu']}, "
            f"{esw['mode']}/{esw['steering']}, {pf['sriov_vfs']} of {pf['sriov_total']} VFs"
            + (f", in {pf['master']}" if pf["master"] else "")
        )
        held: dict[str, list[int]] = {}
        for vf in (v for v in shown["vfs"] if v["pf"] == pf["address"]):
            held.setdefault(vf["driver"] or "unbound", []).append(vf["index"])
        lines += [f"    {driver}: VFs {', '.join(map(str, indexes))}" for driver, indexes in held.items()]
    for bond in shown["bonds"]:
        lines.append(
            f"  bond {bond['name']}: {bond['mode']}, members {' '.join(bond['slaves']) or 'none'}, {_up(bond)}"
        )
    for card, entry in shown["lags"].items():
        kind = f" {entry['type']}" if entry["type"] else ""
        lines.append(
            f"  LAG of {card}: {entry['state']}{kind}" + (f" ({entry['error']})" if entry["error"] else "")
        )
    failed = [name for name, unit in shown["units"].items() if unit.get("active") == "failed"]
    lines += [f"  failed units: {', '.join(failed)}"] if failed else []
    lines += [f"  faults: {', '.join(shown['faults'])}"] if shown["faults"] else []
    return lines


def brief(machine: Machine) -> dict[str, Any]:
    """A line of the list of hosts."""
    state = machine.state
    vfs = sum(len(pf["vfs"]) for pf in state["pfs"].values())
    active = [entry["mode"] for entry in state["lag"].values() if entry["mode"] != "none"]
    return {
        "host": state["name"],
        "reachable": not machine.reachable(),
        "boots": state["boot"]["count"],
        "vfs": vfs,
        "lag": ", ".join(active) or "disabled",
        "units": systemd.active(state, "kubelet.service"),
        "cpus": len(boot.all_cpus(state)),
        "faults": ", ".join(state["faults"]),
    }
