"""systemctl, systemd-run, and the tools of the network's owners."""

from __future__ import annotations

import re
from typing import Any

from ..model import boot, net, netplan, osfiles, owners, systemd
from ..model.sysstatic import parse, ranges
from . import Answer, Machine, not_simulated

State = dict[str, Any]

OK: Answer = (0, "", "")


def run(machine: Machine, argv: list[str], stdin: str) -> Answer:
    """One of them."""
    handlers = {
        "systemctl": _systemctl,
        "systemd-run": _systemd_run,
        "networkctl": _networkctl,
        "nmcli": _nmcli,
        "netplan": _netplan,
        "ifup": _ifup,
        "ifdown": _ifdown,
    }
    handler = handlers.get(argv[0])
    return handler(machine, argv) if handler else not_simulated(argv)


def _systemctl(machine: Machine, argv: list[str]) -> Answer:
    state, files = machine.state, machine.files
    words = [word for word in argv[1:] if not word.startswith("--")]
    verb, names = words[0] if words else "", [_full(word) for word in words[1:]]
    if verb == "daemon-reload" and not names:
        _cpusets(state, files)
        return OK
    if verb == "show":
        return _show(machine, argv)
    if not names or verb not in VERBS:
        return not_simulated(argv)
    if verb == "is-active":
        found = [systemd.active(state, name) for name in names]
        return (0 if all(word == "active" for word in found) else 3), "\n".join(found) + "\n", ""
    if verb == "is-enabled":
        return systemd.is_enabled(state, files, names[0])
    if verb == "enable":
        answer = systemd.enable(state, files, names)
        return answer if answer[0] or "--now" not in argv else _start(machine, names)
    if verb == "disable":
        return systemd.disable(state, files, names)
    if verb == "reset-failed":
        for name in names:
            if state["units"].get(name, {}).get("active") == "failed":
                state["units"][name]["active"] = "inactive"
        return OK
    if verb == "try-restart":
        return _start(machine, [name for name in names if systemd.active(state, name) == "active"])
    return (
        _stop(machine, names)
        if verb == "stop"
        else _start(machine, names, again=verb in ("restart", "reload-or-restart"))
    )


VERBS = (
    "is-active",
    "is-enabled",
    "enable",
    "disable",
    "start",
    "stop",
    "restart",
    "try-restart",
    "reload-or-restart",
    "reset-failed",
)


def _full(name: str) -> str:
    return name if "." in name else name + ".service"


def _start(machine: Machine, names: list[str], again: bool = False) -> Answer:
    state = machine.state
    for name in names:
        if name.endswith(".timer") and name[:-6] in state["timers"]:
            continue
        if not systemd.exists(state, machine.files, name):
            return 5, "", f"Failed to start {name}: Unit {name} not found.\n"
        if again or systemd.active(state, name) != "active":
            words = machine.start_unit(name)
            if words:
                return 1, "", words + "\n"
    return OK


def _stop(machine: Machine, names: list[str]) -> Answer:
    state = machine.state
    for name in names:
        if name.endswith(".timer"):
            if state["timers"].pop(name[:-6], None) is None:
                return 5, "", f"Failed to stop {name}: Unit {name} not loaded.\n"
            continue
        if not systemd.exists(state, machine.files, name) and name not in state["units"]:
            return 5, "", f"Failed to stop {name}: Unit {name} not loaded.\n"
        state["units"].setdefault(name, {})["active"] = "inactive"
    return OK


def _show(machine: Machine, argv: list[str]) -> Answer:
    """Systemctl show -p PROPERTY --value UNIT, for the properties that are asked for here."""
    if len(argv) != 6 or argv[2] != "-p" or argv[4] != "--value":
        return not_simulated(argv)
    unit = systemd.read_unit(machine.files, argv[5])
    kind = argv[5].rpartition(".")[2].capitalize()
    if argv[3] == "AllowedCPUs":
        return 0, _allowed(unit, kind) + "\n", ""
    if argv[3] in ("ActiveState", "Result"):
        entry = machine.state["units"].get(argv[5], {})
        return (
            0,
            str(entry.get({"ActiveState": "active", "Result": "result"}[argv[3]], "inactive")) + "\n",
            "",
        )
    return not_simulated(argv)


def _allowed(unit: systemd.Unit, kind: str) -> str:
    return ranges(
        sorted(
            {
                cpu
                for value in unit.keys.get(f"{kind}.AllowedCPUs", [])
                for cpu in parse(value.replace(" ", ","))
            }
        )
    )


def _cpusets(state: State, files: Any) -> None:
    """Turn AllowedCPUs= into the cpusets of running units.

    Where it no longer stands, a cpuset stays as it was while another unit keeps the controller on.
    """
    wanted = {}
    for name in boot.UNITS:
        wanted[name] = _allowed(systemd.read_unit(files, name), name.rpartition(".")[2].capitalize())
    for name, cpus in wanted.items():
        if cpus:
            state["cpusets"][name] = cpus
        elif not any(wanted.values()):
            state["cpusets"].pop(name, None)


def apply_cpusets(machine: Machine) -> None:
    """At boot."""
    _cpusets(machine.state, machine.files)


def _systemd_run(machine: Machine, argv: list[str]) -> Answer:
    """systemd-run --unit=NAME --on-active=SECONDS [--timer-property=...] PROGRAM..."""
    options, words = {}, []
    for at, word in enumerate(argv[1:], 1):
        if not word.startswith("--"):
            words = argv[at:]
            break
        key, _equals, value = word.partition("=")
        options[key] = value
    unit = options.get("--unit", "").removesuffix(".service").removesuffix(".timer")
    span = re.fullmatch(r"(\d+)(s|sec|min|m)?", options.get("--on-active", ""))
    known = {
        "--unit",
        "--on-active",
        "--timer-property",
        "--collect",
        "--quiet",
        "--property",
        "--description",
        "--no-block",
    }
    if not unit or not span or not words or set(options) - known:
        return not_simulated(argv)
    if unit in machine.state["timers"]:
        return (
            1,
            "",
            f"Failed to start transient timer unit: Unit {unit}.timer was already loaded or has a fragment file.\n",
        )
    seconds = int(span[1]) * (60 if span[2] in ("min", "m") else 1)
    machine.state["timers"][unit] = {"at": machine.state["now"] + seconds, "argv": words}
    return 0, "", f"Running timer as unit: {unit}.timer\nWill run service as unit: {unit}.service\n"


def _networkctl(machine: Machine, argv: list[str]) -> Answer:
    state = machine.state
    if argv[1:] == ["reload"]:
        return _reloaded(machine)
    if argv[1:2] in (["reconfigure"], ["up"]) and len(argv) > 2:
        missing = [name for name in argv[2:] if name not in state["netdevs"]]
        if missing:
            return 1, "", f'Failed to resolve interface "{missing[0]}": No such device\n'
        return _said(owners.carry_out(state, machine.files, set(argv[2:])))
    return not_simulated(argv)


def _reloaded(machine: Machine) -> Answer:
    """Networkctl reload: new devices are made, links whose files changed are configured again; nothing is removed."""
    state = machine.state
    former = state.get("configured", {})
    now = {link.name: link.source for link in owners.links(state, machine.files)}
    changed = {
        name for name, source in now.items() if former.get(name) != source or name not in state["netdevs"]
    }
    gone = {name for name in former if name not in now and name in state["netdevs"]}
    said = owners.carry_out(state, machine.files, changed) if changed else []
    state["configured"] = now
    for name in gone:
        if state["netdevs"][name]["master"]:
            net.release(state, name)
        state["netdevs"][name]["addresses"] = []
    return _said(said)


def _said(complaints: list[str]) -> Answer:
    return (1, "", "\n".join(complaints) + "\n") if complaints else OK


def _nmcli(machine: Machine, argv: list[str]) -> Answer:
    state, words = machine.state, argv[1:]
    if words in (["connection", "reload"], ["con", "reload"]):
        return OK
    if (
        words[:2] in (["connection", "up"], ["con", "up"], ["connection", "down"], ["con", "down"])
        and len(words) == 3
    ):
        every = owners.links(state, machine.files)
        link = next((one for one in every if words[2] in (one.label, one.name)), None)
        if link is None:
            return 10, "", f"Error: unknown connection '{words[2]}'.\n"
        if words[1] == "down":
            if link.kind in ("bond", "bridge", "vlan"):
                net.remove(state, link.name)
            elif link.name in state["netdevs"]:
                net.release(state, link.name)
                state["netdevs"][link.name]["addresses"] = []
            return 0, f"Connection '{link.label}' successfully deactivated\n", ""
        names = {link.name, *([link.master] if link.master else [])}
        if link.options.get("ports") == "1":
            names |= {one.name for one in every if one.master == link.name}
        complaints = owners.carry_out(state, machine.files, names)
        if complaints:
            return 4, "", f"Error: Connection activation failed: {'; '.join(complaints)}\n"
        return 0, "Connection successfully activated\n", ""
    return not_simulated(argv)


def _netplan(machine: Machine, argv: list[str]) -> Answer:
    if argv[1:] not in (["generate"], ["apply"]):
        return not_simulated(argv)
    wrong = netplan.generate(machine.state, machine.files)
    if wrong:
        return 78, "", wrong + "\n"
    return _reloaded(machine) if argv[1] == "apply" else OK


def _ifup(machine: Machine, argv: list[str]) -> Answer:
    if len(argv) != 2:
        return not_simulated(argv)
    every = owners.links(machine.state, machine.files)
    if argv[1] not in {link.name for link in every}:
        return 1, "", f"ifup: unknown interface {argv[1]}\n"
    names = {argv[1], *(link.name for link in every if link.master == argv[1])}
    return _said(owners.carry_out(machine.state, machine.files, names))


def _ifdown(machine: Machine, argv: list[str]) -> Answer:
    state = machine.state
    if len(argv) != 2:
        return not_simulated(argv)
    device = state["netdevs"].get(argv[1])
    if device is None:
        return 0, "", f"ifdown: interface {argv[1]} not configured\n"
    if device["kind"] in ("bond", "bridge", "vlan"):
        net.remove(state, argv[1])
    else:
        net.release(state, argv[1])
        net.set_up(state, argv[1], False)
        device["addresses"] = []
    return OK


def boot_network(machine: Machine) -> str:
    """What the owner's service does when it starts: "" or its complaints."""
    if machine.state["variant"]["owner"] == "netplan":
        wrong = netplan.generate(machine.state, machine.files)
        if wrong:
            return wrong
    said = owners.carry_out(machine.state, machine.files)
    machine.state["configured"] = {
        link.name: link.source for link in owners.links(machine.state, machine.files)
    }
    return "; ".join(said)


def is_owner(state: State, name: str) -> bool:
    """Whether a service is the one that sets up the network here."""
    return name in osfiles.OWNERS[state["variant"]["owner"]]
