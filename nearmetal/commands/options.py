"""Options that several commands share."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from nearmetal.errors import BAD_INTENT, NearmetalError

WIDTH = 100

Inventory = Annotated[str, typer.Option("-i", "--inventory", help="Inventory: file, folder, or 'host,'.")]
Limit = Annotated[str, typer.Option("-l", "--limit", help="Only these hosts or groups (an Ansible pattern).")]
Json = Annotated[bool, typer.Option("--json", help="Print the whole document as JSON.")]
ExtraVars = Annotated[list[str] | None, typer.Option("-e", "--extra-vars", help="Passed on to Ansible.")]
Vault = Annotated[Path | None, typer.Option("--vault-password-file", help="Passed on to Ansible.", exists=True)]
Forks = Annotated[int, typer.Option("-f", "--forks", min=1, help="Hosts at work at once.")]


def console(stderr: bool = False) -> Console:
    """Colour only on a terminal; 100 columns where there is none."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else WIDTH, soft_wrap=False, highlight=False)


def check_inventory(inventory: str) -> None:
    """Exit 65 where the inventory is not there; Ansible itself would only warn."""
    if "," not in inventory and not Path(inventory).exists():
        raise NearmetalError(f"inventory {inventory} does not exist", BAD_INTENT)


def ansible_options(extra_vars: list[str] | None, vault: Path | None) -> list[str]:
    """Words for ansible-playbook's command line, each quoted for ansible-runner's splitting."""
    import shlex

    words = []
    for item in extra_vars or []:
        words += ["-e", item]
    if vault:
        words += ["--vault-password-file", str(vault.resolve())]
    return [shlex.quote(w) for w in words]


def print_json(document: Any) -> None:
    """One JSON document on standard output, never wrapped or coloured."""
    print(json.dumps(document, indent=1))
