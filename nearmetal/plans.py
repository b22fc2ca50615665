"""The plan of a rack: gathered from a playbook's journal, shown, saved, compared."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from nearmetal import core
from nearmetal.errors import BAD_INTENT, FAILED, OK, PENDING, NearmetalError
from nearmetal.runner import Outcome

SCHEMA = 1
Plan = dict[str, Any]
"""The document of `plan --json`: schema, created, inventory, hosts, steps, summary. See docs/usage.md."""

COLOURS = {"none": "green", "traffic": "yellow", "drain": "yellow", "reboot": "magenta", "power_cycle": "red"}


def collect(outcome: Outcome, inventory: str) -> Plan:
    """Plan document from the events of a `plan` or `validate` playbook."""
    plans: dict[str, dict[str, Any]] = {}
    hosts: dict[str, dict[str, Any]] = {}
    for event in outcome.events:
        host = event.get("host", "")
        if event["event"] == "plan":
            plans[host] = event["plan"]
            hosts[host] = {k: event["plan"][k] for k in ("status", "problems", "warnings", "reboot", "marks")}
        elif event["event"] in ("failed", "unreachable") and host not in plans:
            hosts[host] = _lost(event)
    if not hosts:
        _explain_nothing(outcome, inventory)
    steps = [
        {**step, "id": f"{host}/{step['id']}", "host": host, "requires": [f"{host}/{r}" for r in step["requires"]]}
        for host, plan in plans.items()
        for step in plan["steps"]
    ]
    summary = core.loop().summary({host: plans.get(host, {}) for host in hosts})
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"schema": SCHEMA, "created": created, "inventory": inventory, "hosts": hosts, "steps": steps, "summary": summary}


def _lost(event: Mapping[str, Any]) -> dict[str, Any]:
    status = "unreachable" if event["event"] == "unreachable" else "failed"
    fix = "check the address, the port and the SSH key" if status == "unreachable" else "see the message"
    problem = {"variable": "", "value": None, "message": event["message"].strip(), "fix": fix, "kind": "host"}
    return {"status": status, "problems": [problem], "warnings": [], "reboot": False, "marks": []}


def _explain_nothing(outcome: Outcome, inventory: str) -> None:
    text = outcome.log.read_text(errors="replace") if outcome.log.is_file() else ""
    if outcome.status == "canceled":
        raise NearmetalError("stopped before any host was looked at", FAILED)
    if outcome.rc == 0:
        raise NearmetalError(f"no host matches in inventory {inventory}", BAD_INTENT)
    tail = "\n".join(text.strip().splitlines()[-12:])
    raise NearmetalError(f"ansible could not start on inventory {inventory}:\n{tail}", FAILED)


def exit_code(plan: Plan) -> int:
    """0 nothing to do, 2 changes pending, 1 some host failed, 65 only the intent is wrong."""
    hosts = plan["hosts"].values()
    if any(h["status"] in ("failed", "unreachable") for h in hosts):
        return FAILED
    kinds = {p["kind"] for h in hosts for p in h["problems"]}
    if "host" in kinds:
        return FAILED
    if kinds:
        return BAD_INTENT
    return PENDING if plan["steps"] else OK


def changed_hosts(plan: Plan) -> list[str]:
    """Hosts with steps and without problems, in inventory order."""
    differ = {s["host"] for s in plan["steps"]}
    return [h for h, v in plan["hosts"].items() if h in differ and not v["problems"]]


def save(plan: Plan, path: Path) -> None:
    """Write a plan file, atomically."""
    draft = path.with_name(path.name + ".new")
    draft.write_text(json.dumps(plan, indent=1) + "\n")
    draft.replace(path)


def load(path: Path) -> Plan:
    """Read a plan file; exit 65 where it is none."""
    try:
        plan = json.loads(path.read_text())
        if plan["schema"] == SCHEMA and {"hosts", "steps", "summary", "inventory"} <= plan.keys():
            return dict(plan)
        reason = f"schema {plan['schema']} is not {SCHEMA}"
    except OSError as err:
        reason = str(err.strerror)
    except (ValueError, KeyError, TypeError, AttributeError):
        reason = "not made by nearmetal plan --out"
    raise NearmetalError(f"{path} is no plan file: {reason}", BAD_INTENT)


def fold(hosts: Iterable[str]) -> str:
    """Host names, numbered ones together: node1, node2, node3 -> node[1-3]."""
    groups: dict[tuple[str, str], list[str]] = {}
    for host in hosts:
        match = re.fullmatch(r"(.*?)(\d+)(\D*)", host)
        head, number, tail = match.groups() if match else (host, "", "")
        groups.setdefault((head, tail), []).append(number)
    return ", ".join(head + _ranges(numbers) + tail for (head, tail), numbers in groups.items())


def _ranges(numbers: list[str]) -> str:
    if len(numbers) == 1:
        return numbers[0]
    runs: list[list[str]] = []
    for number in sorted(numbers, key=lambda n: (int(n), len(n))):
        if runs and f"{int(runs[-1][-1]) + 1:0{len(runs[-1][-1])}d}" == number:
            runs[-1].append(number)
        else:
            runs.append([number])
    return "[" + ",".join(r[0] if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs) + "]"


def show(plan: Plan, console: Console) -> None:
    """The plan as an operator reads it: equal steps of many hosts once, problems last."""
    if plan["steps"]:
        console.print(_table(plan))
    for host_group, text in _grouped(plan, "warnings"):
        console.print(f"[yellow]note[/] {escape(host_group)}: {escape(text)}")
    for host_group, text in _grouped(plan, "problems"):
        console.print(f"[red bold]problem[/] {escape(host_group)}: {escape(text)}")
    console.print(summary_line(plan))


def _table(plan: Plan) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for title, ratio in (("step", 3), ("hosts", 2), ("change, and why", 7), ("disruption", 1)):
        table.add_column(title, ratio=ratio, overflow="fold")
    groups: dict[tuple[str, ...], list[str]] = {}
    for step in plan["steps"]:
        key = tuple(str(step[k]) for k in ("capability", "key", "before", "after", "reason", "disruption"))
        groups.setdefault(key, []).append(step["host"])
    last = ""
    for (capability, what, before, after, reason, disruption), hosts in groups.items():
        name = f"[bold]{escape(capability)}[/] {escape(what)}" if what != capability else f"[bold]{escape(what)}[/]"
        change = f"{escape(before) or '(nothing)'} [dim]->[/] {escape(after) or '(nothing)'}\n[dim]{escape(reason)}[/]"
        if capability != last and last:
            table.add_section()
        last = capability
        colour = COLOURS.get(disruption, "white")
        table.add_row(name, escape(fold(hosts)), change, f"[{colour}]{disruption}[/]")
    return table


def _grouped(plan: Plan, key: str) -> list[tuple[str, str]]:
    groups: dict[str, list[str]] = {}
    for host, entry in plan["hosts"].items():
        for item in entry[key]:
            groups.setdefault(item if isinstance(item, str) else describe(item), []).append(host)
    return [(fold(hosts), text) for text, hosts in groups.items()]


def describe(problem: Mapping[str, Any]) -> str:
    """One line: variable, value, what is wrong, what to do."""
    head = f"{problem['variable']}={problem['value']!r}: " if problem["variable"] else ""
    return f"{head}{problem['message'].rstrip('.')}. Fix: {problem['fix'].rstrip('.')}."


def summary_line(plan: Plan) -> str:
    """Counts in one sentence."""
    count = plan["summary"]
    lost = sum(1 for h in plan["hosts"].values() if h["problems"])
    steps = {d: n for d, n in count["by_disruption"].items() if n}
    parts = [f"{count['hosts']} host(s)", f"{count['changed_hosts']} differ"]
    if steps:
        parts.append("steps: " + ", ".join(f"{n} {'without disruption' if d == 'none' else d}" for d, n in steps.items()))
        parts.append(f"{count['reboots']} reboot(s)")
    if lost:
        parts.append(f"[red]{lost} with problems[/]")
    return "[bold]" + "; ".join(parts) + "[/]"
