"""apply: carry a plan out, batch by batch, and verify it."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from nearmetal import history, locks, plans
from nearmetal.commands import options
from nearmetal.commands.plan import observe
from nearmetal.errors import BAD_INTENT, FAILED, OK, USAGE, NearmetalError
from nearmetal.progress import View, stoppable
from nearmetal.runner import FORKS, Event, read_journal, run_playbook

Batch = Annotated[str, typer.Option("--batch", help="Hosts at a time: a number, a percentage, or a list such as 1,10%,50%.")]
MaxFailures = Annotated[int, typer.Option("--max-failures", min=0, help="Go on with the next batch up to so many failed hosts.")]


def apply(
    planfile: Annotated[Path | None, typer.Argument(help="A plan saved with plan --out: exactly that is done.")] = None,
    inventory: Annotated[str, typer.Option("-i", "--inventory", help="Inventory; not needed with a plan file.")] = "",
    limit: options.Limit = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    batch: Batch = "100%", max_failures: MaxFailures = 0,
    reboot: Annotated[bool, typer.Option("--reboot/--no-reboot", help="Reboot hosts that need it, or leave it pending.")] = True,
    retry_reboot: Annotated[bool, typer.Option("--retry-reboot", help="Reboot again although it was in vain before.")] = False,
    extra_vars: options.ExtraVars = None, vault_password_file: options.Vault = None, forks: options.Forks = FORKS,
) -> None:  # fmt: skip
    """Bring the hosts to their intent: in batches, one reboot at most, verified, resumable."""
    saved = plans.load(planfile) if planfile else None
    inventory = inventory or (saved["inventory"] if saved else "")
    limit = limit or (saved.get("limit", "") if saved else "")
    if not inventory:
        raise NearmetalError("an inventory (-i) or a plan file is needed", USAGE)
    if not yes and not sys.stdin.isatty():
        raise NearmetalError("there is no terminal to ask on; say --yes to apply without being asked", USAGE)
    options.check_inventory(inventory)
    sizes = parse_batches(batch)
    words = options.ansible_options(extra_vars, vault_password_file)
    console = options.console()
    run = history.begin(sys.argv[1:], inventory, limit)
    variables: dict[str, Any] = {"nearmetal_reboot_ok": reboot, "nearmetal_reboot_retry": retry_reboot}
    with locks.held("inventory", [str(Path(inventory).resolve())], run.id):
        _say_what_died(console, inventory)
        started = time.monotonic()
        plan = saved or observe("plan", inventory, limit, words, forks, variables=variables)
        plans.show(plan, console)
        todo = plans.changed_hosts(plan)
        if not todo:
            if not plan["steps"] and not plans.exit_code(plan):
                _note_converged(run, plan)
                console.print(
                    f"Nothing to do: {len(plan['hosts'])} host(s) observed in one round trip each, "
                    f"0 modules run, {time.monotonic() - started:.1f} s."
                )
            raise typer.Exit(plans.exit_code(plan))
        if not yes and not typer.confirm(f"Apply this to {plans.fold(todo)}?"):
            raise typer.Exit(FAILED)
        with locks.held("host", todo, run.id):
            code = _carry_out(run, plan, todo, sizes, max_failures, forks, words, variables, console)
    raise typer.Exit(max(code, FAILED if plans.exit_code(plan) in (FAILED, BAD_INTENT) else OK))


def _note_converged(run: history.Run, plan: plans.Plan) -> None:
    """A run that found nothing to do is the proof that the one before it was complete: keep it."""
    run.hosts = dict.fromkeys(plan["hosts"], "ok")
    run.save()
    plans.save(plan, run.folder / "plan.json")
    run.end("ok")


def parse_batches(text: str) -> list[str]:
    """"1,10%,50%" -> ["1", "10%", "50%"]; the last one repeats. Exit 64 where it is none of these."""
    words = [w.strip() for w in text.split(",")]
    for word in words:
        digits = word.removesuffix("%")
        if not digits.isdigit() or int(digits) < 1 or (word.endswith("%") and int(digits) > 100):
            raise NearmetalError(f"--batch {text!r}: {word!r} is neither a number of hosts nor a percentage (1%..100%)", USAGE)
    return words


def batches(hosts: list[str], sizes: list[str]) -> Iterator[list[str]]:
    """Hosts in order, in batches of the given sizes; the last size repeats."""
    total, start, turn = len(hosts), 0, 0
    while start < total:
        word = sizes[min(turn, len(sizes) - 1)]
        size = max(1, total * int(word[:-1]) // 100) if word.endswith("%") else int(word)
        yield hosts[start : start + size]
        start, turn = start + size, turn + 1


def _carry_out(
    run: history.Run, plan: plans.Plan, todo: list[str], sizes: list[str], max_failures: int, forks: int,
    words: list[str], variables: dict[str, Any], console: Console,
) -> int:  # fmt: skip
    run.hosts = dict.fromkeys(todo, "pending")
    run.save()
    plans.save(plan, run.folder / "plan.json")
    variables = {
        **variables, "nearmetal_run_dir": str(run.folder.resolve()),
        "nearmetal_expected": {h: plan["hosts"][h]["marks"] for h in todo},
    }  # fmt: skip
    console.print(f"run {run.id}")
    groups = list(batches(todo, sizes))
    with stoppable("stopping after the steps at work ...") as stopped:
        for number, hosts in enumerate(groups, 1):
            title = "apply" if len(groups) == 1 else f"batch {number} of {len(groups)}"
            _one_batch(run, hosts, title, forks, words, variables, console, stopped)
            failed = [h for h, s in run.hosts.items() if s == "failed"]
            if stopped[0] or (len(failed) > max_failures and number < len(groups)):
                break
    return _conclude(run, console, bool(stopped[0]))


def _one_batch(
    run: history.Run, hosts: list[str], title: str, forks: int, words: list[str], variables: dict[str, Any],
    console: Console, stopped: list[bool],
) -> None:  # fmt: skip
    batch = run.folder / "batch.txt"
    batch.write_text("\n".join(hosts) + "\n")
    with View(console, title, len(hosts), _last_duration()) as view:
        verified: dict[str, int] = dict.fromkeys(hosts, 0)

        def on_event(event: Event) -> None:
            view.event(event)
            if event["event"] in ("failed", "unreachable"):
                view.done(event["host"])
            elif event["event"] == "plan" and event["ok"] and event["plan"]["status"] == "ok":
                verified[event["host"]] = verified.get(event["host"], 0) + 1
                view.done(event["host"])

        outcome = run_playbook(
            "site", run.inventory, run.folder, limit=f"@{batch}", variables=variables, options=words, forks=forks,
            on_event=on_event, cancelled=lambda: stopped[0],
        )  # fmt: skip
    for host, status in judge(hosts, outcome.events, stopped[0]).items():
        run.hosts[host] = status
    run.save()
    for event in outcome.events:
        if event["event"] == "failed" and "plan" in event["action"]:
            console.print(f"[red]failed[/] {escape(event['host'])}: {escape(event['message'])}")
    if outcome.rc and not any(e["event"] in ("failed", "unreachable") for e in outcome.events) and not stopped[0]:
        tail = "\n".join(outcome.log.read_text(errors="replace").strip().splitlines()[-12:])
        raise NearmetalError(f"ansible ended with {outcome.rc}:\n{tail}")


def judge(hosts: list[str], events: list[Event], stopped: bool) -> dict[str, str]:
    """What became of each host: its last plan says that nothing is left, or it failed, or was not finished."""
    result = dict.fromkeys(hosts, "pending" if stopped else "failed")
    for event in events:
        host = event.get("host")
        if host not in result:
            continue
        if event["event"] in ("failed", "unreachable"):
            result[host] = "failed"
        elif event["event"] == "plan":
            steps = event["plan"]["steps"]
            waits = bool(steps) and event["plan"]["reboot"] and not event["plan"]["calls"]
            result[host] = "ok" if event["ok"] and not steps else "reboot pending" if event["ok"] and waits else result[host]
    return result


def _conclude(run: history.Run, console: Console, stopped: bool) -> int:
    by_status: dict[str, list[str]] = {}
    for host, status in run.hosts.items():
        by_status.setdefault(status, []).append(host)
    status = "interrupted" if stopped else "failed" if by_status.keys() - {"ok", "reboot pending"} else "ok"
    run.end(status)
    for name, hosts in by_status.items():
        colour = {"ok": "green", "failed": "red"}.get(name, "yellow")
        label = "verified, as intended" if name == "ok" else name
        console.print(f"[{colour}]{label}[/]: {escape(plans.fold(hosts))}")
    if status != "ok":
        again = f"nearmetal apply -i {run.inventory}" + (f" -l {run.limit!r}" if run.limit else "")
        console.print(f"Nothing is half-written. To go on from where the hosts are: {again}")
        console.print(f"Journal: nearmetal runs {run.id}")
    return OK if status == "ok" else FAILED


def _last_duration() -> float | None:
    """Median seconds of a batch in the latest runs that went well; None where there was none."""
    seconds: list[float] = []
    for run in history.all_runs():
        journal = run.folder / "journal.jsonl"
        if run.status == "ok" and journal.exists() and len(seconds) < 3:
            times = [e["time"] for e in read_journal(journal)]
            seconds.append(times[-1] - times[0] if times else 0)
    return statistics.median(seconds) if seconds else None


def _say_what_died(console: Console, inventory: str) -> None:
    """A run whose controller went away is closed here; the hosts themselves say where they stand."""
    for run in history.all_runs():
        if run.status == "died" and run.inventory == inventory:
            console.print(f"[yellow]Run {run.id} was cut off[/]; going on from what the hosts say now.")
            run.end("interrupted")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(apply)
