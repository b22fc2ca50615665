"""devlink of iproute2: ports, eswitch and parameters of mlx5, in the forms pci/... and auxiliary/... .

On newer kernels the ports of mlx5 appear under auxiliary/mlx5_core.eth.N; eswitch and parameters stay under pci/.
"""

from __future__ import annotations

import json
from typing import Any

from ..model import eswitch, lag
from ..model.errors import Refusal
from . import Answer, Machine, not_simulated

State = dict[str, Any]


def run(machine: Machine, argv: list[str], stdin: str) -> Answer:
    """Devlink."""
    state, words = machine.state, [word for word in argv[1:] if word not in ("-j", "-p", "-jp")]
    if words[:2] == ["port", "show"] or words == ["port"]:
        return _out(argv, {"port": ports(state)})
    if words[:2] == ["dev", "show"] or words == ["dev"]:
        known: dict[str, Any] = {
            f"pci/{pf}": {} for pf, entry in state["pfs"].items() if entry["driver"] == "mlx5_core"
        }
        return _out(argv, {"dev": known})
    if words[:3] == ["dev", "eswitch", "show"] and len(words) == 4:
        address = _address(words[3])
        known = eswitch.pf_of(state, address)["esw"]
        shown = {"mode": known["mode"], "inline-mode": known["inline"], "encap-mode": known["encap"]}
        return _out(argv, {"dev": {words[3]: shown}})
    if words[:3] == ["dev", "eswitch", "set"] and words[4:5] == ["mode"] and len(words) == 6:
        eswitch.set_mode(state, _address(words[3]), words[5])
        return 0, "", ""
    if words[:3] == ["dev", "param", "show"] and words[4:5] == ["name"] and len(words) == 6:
        return _out(argv, _show_param(state, words[3], words[5]))
    if (
        words[:3] == ["dev", "param", "set"]
        and words[4:5] == ["name"]
        and words[6:7] == ["value"]
        and words[8:] == ["cmode", "runtime"]
    ):
        return _set_param(state, _address(words[3]), words[5], words[7])
    return not_simulated(argv)


def _out(argv: list[str], document: dict[str, Any]) -> Answer:
    if not {"-j", "-jp"} & set(argv):
        return not_simulated(argv)
    return 0, json.dumps(document, separators=(",", ":")) + "\n", ""


def _address(handle: str) -> str:
    if not handle.startswith("pci/"):
        raise Refusal(19, "kernel answers: No such device")
    return handle[4:]


def _show_param(state: State, handle: str, name: str) -> dict[str, Any]:
    known = eswitch.pf_of(state, _address(handle))["esw"]
    values = {"flow_steering_mode": known["steering"], "esw_multiport": known["multiport"]}
    if name not in values:
        raise Refusal(22, "kernel answers: Invalid argument")
    entry = {"name": name, "type": "driver-specific", "values": [{"cmode": "runtime", "value": values[name]}]}
    return {"param": {handle: [entry]}}


def _set_param(state: State, address: str, name: str, value: str) -> Answer:
    eswitch.pf_of(state, address)
    if name == "flow_steering_mode":
        eswitch.set_steering(state, address, value)
    elif name == "esw_multiport" and value in ("true", "false", "1", "0"):
        lag.set_multiport(state, address, value in ("true", "1"))
    else:
        raise Refusal(22, "kernel answers: Invalid argument")
    return 0, "", ""


def ports(state: State) -> dict[str, Any]:
    """Ports by their handle: one for each PF, one for each VF in switchdev mode, one for each VF with a driver."""
    found: dict[str, Any] = {}
    auxiliary = state["variant"]["devlink"] == "auxiliary"
    every = [pf for pf, entry in sorted(state["pfs"].items()) if entry["driver"] == "mlx5_core"]
    for at, pf in enumerate(every):
        entry = state["pfs"][pf]
        handle = f"auxiliary/mlx5_core.eth.{at}" if auxiliary else f"pci/{pf}"
        found[f"{handle}/65535"] = {
            "type": "eth",
            "netdev": entry["netdev"],
            "flavour": "physical",
            "port": entry["port"],
            "splittable": False,
        }
        for vf in entry["vfs"]:
            if vf["representor"]:
                found[f"pci/{pf}/{vf['index'] + 1}"] = {
                    "type": "eth",
                    "netdev": vf["representor"],
                    "flavour": "pcivf",
                    "controller": 0,
                    "pfnum": entry["port"],
                    "vfnum": vf["index"],
                    "external": False,
                    "splittable": False,
                    "function": {"hw_addr": vf["mac"], "roce": "enable"},
                }
            if vf["driver"] == "mlx5_core":
                found[f"pci/{vf['address']}/1"] = {
                    "type": "eth",
                    "netdev": vf["netdev"],
                    "flavour": "virtual",
                    "splittable": False,
                }
    return found
