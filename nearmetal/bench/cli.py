"""Command line of the benchmarks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from nearmetal import history
from nearmetal.bench import comparison, store
from nearmetal.commands import options
from nearmetal.errors import FAILED, NearmetalError
from nearmetal.progress import View, stoppable
from nearmetal.runner import FORKS, Event, Outcome, run_playbook

app = typer.Typer(no_args_is_help=True, help="Benchmarks: bare metal against virtual machines.")

RunName = Annotated[str, typer.Argument(help="A benchmark run; 'last' is the newest.")]


@app.command()
def run(
    inventory: options.Inventory,
    limit: options.Limit = "",
    scenario: Annotated[list[str] | None, typer.Option("--scenario", help="A guest to compare; repeatable.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds at least; each runs every side once.")] = None,
    max_rounds: Annotated[int | None, typer.Option(min=1, help="Rounds at most.")] = None,
    seconds: Annotated[int | None, typer.Option(min=1, help="Length of one run.")] = None,
    json: options.Json = False,
    extra_vars: options.ExtraVars = None, vault_password_file: options.Vault = None, forks: options.Forks = FORKS,
) -> None:  # fmt: skip
    """Boot the guests on every host and compare them with bare metal, in interleaved rounds."""
    options.check_inventory(inventory)
    words = options.ansible_options(extra_vars, vault_password_file)
    name = history.begin(sys.argv[1:], inventory, limit).id
    given = {"scenarios": scenario, "rounds": rounds, "max_rounds": max_rounds, "seconds": seconds}
    variables: dict[str, Any] = {f"benchmark_vm_{k}": v for k, v in given.items() if v is not None}
    if rounds is not None and max_rounds is None:
        variables["benchmark_vm_max_rounds"] = rounds
    variables.update(benchmark_vm_results=str(store.bench_dir().resolve()), benchmark_vm_run=name)
    console = options.console(stderr=json)
    with stoppable("stopping ...") as stopped, View(console, "benchmark", 0, _last_duration()) as view:

        def on_event(event: Event) -> None:
            view.event(event)
            if event["event"] in ("failed", "unreachable", "task_done"):
                view.done(event["host"])

        outcome = run_playbook(
            "benchmark", inventory, store.bench_dir() / name / "ansible", limit=limit, variables=variables,
            options=words, forks=forks, on_event=on_event, cancelled=lambda: stopped[0],
        )  # fmt: skip
    if stopped[0]:
        raise NearmetalError("stopped; the hosts remove their guests by themselves")
    _conclude(name, outcome, json)


def _conclude(name: str, outcome: Outcome, json: bool) -> None:
    """Show what came home. Exit 1 where some host failed."""
    failed = any(e["event"] in ("failed", "unreachable") for e in outcome.events)
    if outcome.rc and not failed:
        tail = "\n".join(outcome.log.read_text(errors="replace").strip().splitlines()[-12:])
        raise NearmetalError(f"ansible ended with {outcome.rc}:\n{tail}")
    if name not in store.runs():
        raise NearmetalError("no host brought a result" + ("" if failed else ": the inventory has no hosts"))
    results = store.load(name)
    if json:
        options.print_json({"run": name, "hosts": {r.host: r.model_dump(by_alias=True) for r in results}})
    else:
        console = options.console()
        comparison.show(results, [], console)
        console.print(f"\nrun {name}: nearmetal bench compare {name}, nearmetal bench report")
    if outcome.rc:
        raise typer.Exit(FAILED)


@app.command("list")
def list_runs(json: options.Json = False) -> None:
    """List the benchmark runs, oldest first."""
    rows = [_row(name) for name in store.runs()]
    if json:
        options.print_json(rows)
        return
    table = Table(box=None, pad_edge=False)
    for title in ("run", "hosts", "sides", "runs", "failed", "emulated"):
        table.add_column(title, overflow="fold")
    for row in rows:
        sides, emulated = ", ".join(row["scenarios"]), "yes" if row["emulated"] else "no"
        table.add_row(
            row["run"], escape(", ".join(row["hosts"])), sides, str(row["runs"]), str(row["failed"]), emulated
        )
    options.console().print(table if rows else "no benchmark runs yet")


def _row(name: str) -> dict[str, Any]:
    results = store.load(name)
    runs = [r for one in results for r in one.runs]
    return {
        "run": name, "hosts": [r.host for r in results],
        "scenarios": list(dict.fromkeys(s.name for r in results for s in r.scenarios)),
        "runs": len(runs), "failed": sum(not r.ok for r in runs), "emulated": any(r.emulated for r in results),
    }  # fmt: skip


@app.command()
def compare(
    run: RunName = store.LAST,
    other: Annotated[str | None, typer.Argument(help="An earlier run to compare with.")] = None,
    json: options.Json = False,
) -> None:
    """Bare metal against guests, with confidence intervals; with a second run also run against run."""
    results = store.load(run)
    earlier = store.load(other) if other else []
    if earlier and not {r.host for r in results} & {r.host for r in earlier}:
        raise NearmetalError(f"{run} and {other} have no host in common")
    if json:
        options.print_json(comparison.document(results, earlier))
    else:
        comparison.show(results, earlier, options.console())


@app.command()
def report(
    out: Annotated[Path, typer.Option("--out", help="The HTML file to write.")] = Path("report.html"),
    run: Annotated[str | None, typer.Option("--run", help="The apply run; the latest that changed something.")] = None,
    bench: Annotated[str | None, typer.Option("--bench", help="The benchmark run; the latest.")] = None,
) -> None:
    """Write one self-contained HTML file: hosts, changes, proofs, benchmarks."""
    from nearmetal.report.build import build_report  # noqa: PLC0415 - plotly takes a second to import

    options.console().print(f"wrote {build_report(out, run, bench)}")


def _last_duration() -> float | None:
    """Seconds that the slowest host of the newest run took, as far as its result tells."""
    names = store.runs()
    if not names:
        return None
    return max(
        sum(s.boot_seconds or 0 for s in one.scenarios) + sum(r.seconds for r in one.runs)
        for one in store.load(names[-1])
    )
