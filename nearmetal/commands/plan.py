"""validate, plan, drift: what would be done, with nothing done."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from nearmetal import plans
from nearmetal.commands import options
from nearmetal.progress import View
from nearmetal.runner import FORKS, run_playbook


def observe(
    playbook: str, inventory: str, limit: str, words: list[str], forks: int = FORKS, title: str = "observe",
    run_dir: Path | None = None, variables: dict[str, object] | None = None,
) -> plans.Plan:  # fmt: skip
    """Run the plan (or validate) playbook and gather its document; progress on stderr."""
    options.check_inventory(inventory)
    console = options.console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="nearmetal-") as scratch, View(console, title, 0) as view:

        def on_event(event: dict[str, object]) -> None:
            view.event(event)
            if event["event"] in ("plan", "failed", "unreachable"):
                view.done(str(event["host"]))

        outcome = run_playbook(
            playbook, inventory, run_dir or Path(scratch), limit=limit, options=words, forks=forks,
            variables=variables, on_event=on_event if console.is_terminal else None,
        )  # fmt: skip
        return plans.collect(outcome, inventory)


def validate(
    inventory: options.Inventory, limit: options.Limit = "", json: options.Json = False,
    extra_vars: options.ExtraVars = None, vault_password_file: options.Vault = None,
) -> None:  # fmt: skip
    """Check the intent of all hosts, every error at once. No host is touched."""
    plan = observe("validate", inventory, limit, options.ansible_options(extra_vars, vault_password_file), title="validate")
    if json:
        options.print_json({k: plan[k] for k in ("schema", "created", "inventory", "hosts")})
    else:
        plans.show(plan, options.console())
    raise typer.Exit(plans.exit_code(plan))


def plan(
    inventory: options.Inventory, limit: options.Limit = "",
    out: Annotated[Path | None, typer.Option("--out", help="Save the plan; nearmetal apply FILE does exactly that.")] = None,
    json: options.Json = False, extra_vars: options.ExtraVars = None, vault_password_file: options.Vault = None,
    forks: options.Forks = FORKS,
) -> None:  # fmt: skip
    """Say what would change, why, how disruptive it is and in which order. Nothing is changed."""
    found = observe("plan", inventory, limit, options.ansible_options(extra_vars, vault_password_file), forks)
    if out:
        plans.save({**found, "limit": limit}, out)
    if json:
        options.print_json(found)
    else:
        plans.show(found, options.console())
    raise typer.Exit(plans.exit_code(found))


def drift(
    inventory: options.Inventory, limit: options.Limit = "", json: options.Json = False,
    metrics: Annotated[Path | None, typer.Option("--metrics", help="Write a Prometheus textfile here.")] = None,
    extra_vars: options.ExtraVars = None, vault_password_file: options.Vault = None, forks: options.Forks = FORKS,
) -> None:  # fmt: skip
    """Read-only: which hosts no longer are as intended."""
    words = options.ansible_options(extra_vars, vault_password_file)
    found = observe("plan", inventory, limit, words, forks)
    if metrics:
        write_metrics(found, metrics)
    if json:
        options.print_json(found)
    else:
        plans.show(found, options.console())
    raise typer.Exit(plans.exit_code(found))


def write_metrics(plan: plans.Plan, path: Path) -> None:
    """Prometheus text format for node_exporter's textfile collector; replaced atomically."""
    differing: dict[str, dict[str, int]] = {host: {} for host in plan["hosts"]}
    for step in plan["steps"]:
        per_host = differing[step["host"]]
        per_host[step["capability"]] = per_host.get(step["capability"], 0) + 1
    lines = [
        "# HELP nearmetal_drift_steps Steps that would bring the host to its intent.",
        "# TYPE nearmetal_drift_steps gauge",
    ]
    for host, counts in differing.items():
        for capability, count in counts.items():
            lines.append(f'nearmetal_drift_steps{{host="{_label(host)}",capability="{_label(capability)}"}} {count}')
    lines += [
        "# HELP nearmetal_host_status 1 for the status that the host has.",
        "# TYPE nearmetal_host_status gauge",
        *(f'nearmetal_host_status{{host="{_label(h)}",status="{v["status"]}"}} 1' for h, v in plan["hosts"].items()),
        "# HELP nearmetal_drift_timestamp_seconds When drift was last looked for.",
        "# TYPE nearmetal_drift_timestamp_seconds gauge",
        f"nearmetal_drift_timestamp_seconds {time.time():.0f}",
    ]
    draft = path.with_name(path.name + ".new")
    draft.write_text("\n".join(lines) + "\n")
    draft.replace(path)


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (validate, plan, drift):
        app.command()(command)
