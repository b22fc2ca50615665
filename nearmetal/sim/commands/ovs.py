"""ovs-vsctl: bridges, ports, tags and hardware offload (ovs-vsctl(8); tables as --format=json prints them)."""

from __future__ import annotations

import json
import uuid
from typing import Any

from ..model import net
from . import Answer, Machine, not_simulated


def run(machine: Machine, argv: list[str], stdin: str) -> Answer:
    """ovs-vsctl."""
    state = machine.state
    if argv[0] != "ovs-vsctl":
        return not_simulated(argv)
    if state["units"].get("openvswitch-switch.service", {}).get("active") != "active":
        return (
            1,
            "",
            "ovs-vsctl: unix:/var/run/openvswitch/db.sock: database connection failed (No such file or directory)\n",
        )
    words = [word for word in argv[1:] if word != "--"]
    options = {
        word.lstrip("-").partition("=")[0]: word.partition("=")[2] for word in words if word.startswith("--")
    }
    words = [word for word in words if not word.startswith("--")]
    ovs: dict[str, Any] = state["ovs"]
    if words[:1] == ["list"] and len(words) == 2 and options.get("format") == "json":
        return _table(machine, ovs, words[1], options.get("columns", "").split(","), argv)
    if words == ["get", "Open_vSwitch", ".", "other_config"]:
        inner = ", ".join(f'{key}="{value}"' for key, value in sorted(ovs["config"].items()))
        return 0, "{" + inner + "}\n", ""
    return _change(machine, ovs, words, options, argv)


def _id(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))


def _table(machine: Machine, ovs: dict[str, Any], table: str, columns: list[str], argv: list[str]) -> Answer:
    rows: list[dict[str, Any]] = []
    if table == "Bridge":
        for name, bridge in ovs["bridges"].items():
            ids = [["uuid", _id(f"port/{port}")] for port in [name, *bridge["ports"]]]
            rows.append(
                {
                    "name": name,
                    "ports": ids[0] if len(ids) == 1 else ["set", ids],
                    "_uuid": ["uuid", _id(f"bridge/{name}")],
                }
            )
    elif table == "Port":
        for name, bridge in ovs["bridges"].items():
            for port, tag in [(name, None), *bridge["ports"].items()]:
                rows.append(
                    {
                        "name": port,
                        "tag": ["set", []] if tag is None else tag,
                        "_uuid": ["uuid", _id(f"port/{port}")],
                    }
                )
    else:
        return not_simulated(argv)
    if not set(columns) <= {"name", "ports", "tag", "_uuid"}:
        return not_simulated(argv)
    # Columns come in the order that the schema has them, _uuid first, whatever was asked.
    order = sorted(columns, key=lambda c: (c != "_uuid", c))
    data = [[row.get(column, ["set", []]) for column in order] for row in rows]
    return 0, json.dumps({"data": data, "headings": order}) + "\n", ""


def _change(
    machine: Machine, ovs: dict[str, Any], words: list[str], options: dict[str, str], argv: list[str]
) -> Answer:
    bridges = ovs["bridges"]
    verb = words[0] if words else ""
    if verb == "add-br" and len(words) == 2:
        if words[1] in bridges and "may-exist" not in options:
            return (
                1,
                "",
                f"ovs-vsctl: cannot create a bridge named {words[1]}: it already exists\n",
            )
        if words[1] not in bridges:
            # A bridge is a port of itself: its own network device, on which the host's addresses are.
            net.new(machine.state, words[1], "ovs", net.virtual_mac(machine.state, words[1]))
            bridges[words[1]] = {"ports": {}}
    elif verb == "del-br" and len(words) == 2:
        if bridges.pop(words[1], None) is None and "if-exists" not in options:
            return 1, "", f"ovs-vsctl: no bridge named {words[1]}\n"
        net.remove(machine.state, words[1])
    elif verb == "add-port" and len(words) in (3, 4):
        return _add_port(bridges, words, options)
    elif verb == "del-port" and len(words) == 3:
        known = bridges.get(words[1], {"ports": {}})["ports"]
        if words[2] not in known and "if-exists" not in options:
            return 1, "", f"ovs-vsctl: no port named {words[2]}\n"
        known.pop(words[2], None)
    elif words[1:2] == ["port"] and len(words) == 4 and (verb, words[3].partition("=")[0]) in TAGGING:
        return _tag(bridges, words[2], None if verb == "clear" else int(words[3][4:]))
    elif (
        verb == "set"
        and words[1:3] == ["Open_vSwitch", "."]
        and len(words) == 4
        and words[3].startswith("other_config:")
    ):
        key, _equals, value = words[3].partition(":")[2].partition("=")
        ovs["config"][key] = value.strip('"')
    else:
        return not_simulated(argv)
    return 0, "", ""


TAGGING = (("set", "tag"), ("clear", "tag"))


def _tag(bridges: dict[str, Any], port: str, tag: int | None) -> Answer:
    for bridge in bridges.values():
        if port in bridge["ports"]:
            bridge["ports"][port] = tag
            return 0, "", ""
    return 1, "", f'ovs-vsctl: no row "{port}" in table Port\n'


def _add_port(bridges: dict[str, Any], words: list[str], options: dict[str, str]) -> Answer:
    if words[1] not in bridges:
        return 1, "", f"ovs-vsctl: no bridge named {words[1]}\n"
    owner = next((name for name, bridge in bridges.items() if words[2] in bridge["ports"]), "")
    if owner and (owner != words[1] or "may-exist" not in options):
        return (
            1,
            "",
            f"ovs-vsctl: cannot create a port named {words[2]}: it already exists on bridge {owner}\n",
        )
    tag = int(words[3][4:]) if len(words) == 4 and words[3].startswith("tag=") else None
    if not owner or tag is not None:
        bridges[words[1]]["ports"][words[2]] = tag
    return 0, "", ""
