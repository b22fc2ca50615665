"""Observing live hosts for commands that need no intent: one playbook, one round trip a host."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearmetal.errors import BAD_INTENT, FAILED, NearmetalError
from nearmetal.runner import Outcome, run_playbook

Document = dict[str, Any]


@dataclass
class Observed:
    """Documents of the hosts that answered, and one message for each that did not."""

    documents: dict[str, Document]
    failed: dict[str, str]


def observe_hosts(
    hosts: Sequence[str], inventory: str = "", become: bool = False, raw: bool = False, bmc: bool = False
) -> Observed:
    """State documents of the hosts, or with `raw` the files they were read from, as the collector sends them.

    Without an inventory the names are what ssh understands ([user@]name, aliases of ~/.ssh/config);
    localhost is this machine. With one they are patterns in it, none meaning all its hosts. bmc: with the resources of
    the host's BMC, which its variables bios_* name, under "bmc".
    """
    with tempfile.TemporaryDirectory(prefix="nearmetal-") as scratch:
        folder = Path(scratch) / "documents"
        folder.mkdir()
        variables = {"nearmetal_observe_dir": str(folder), "nearmetal_observe_raw": raw, "nearmetal_observe_bmc": bmc}
        outcome = run_playbook(
            "inspect", inventory or _plain_inventory(hosts, Path(scratch)), Path(scratch) / "run",
            limit=",".join(hosts) if inventory else "", options=["--become"] if become else [], variables=variables,
        )  # fmt: skip
        documents = {path.stem: json.loads(path.read_text(errors="surrogateescape")) for path in sorted(folder.iterdir())}
        failed = {e["host"]: str(e["message"]).strip() for e in outcome.events if e["event"] in ("failed", "unreachable")}
        if not documents and not failed:
            _explain_nothing(outcome, hosts, inventory)
    order = {name: at for at, name in enumerate(hosts)}
    ordered = sorted(documents, key=lambda name: (order.get(name, len(order)), name))
    return Observed({name: documents[name] for name in ordered}, failed)


def _plain_inventory(hosts: Sequence[str], scratch: Path) -> str:
    local = {"ansible_connection": "local", "ansible_python_interpreter": "auto_silent"}
    entries = {name: local if name == "localhost" else {} for name in hosts}
    path = scratch / "hosts.json"
    path.write_text(json.dumps({"all": {"hosts": entries}}))
    return str(path)


def _explain_nothing(outcome: Outcome, hosts: Sequence[str], inventory: str) -> None:
    text = outcome.log.read_text(errors="replace") if outcome.log.is_file() else ""
    if inventory and ("no hosts matched" in text or "Could not match" in text):
        wanted = f"{', '.join(hosts)} matches no host" if hosts else "there is no host"
        raise NearmetalError(f"{wanted} in inventory {inventory}", BAD_INTENT)
    tail = "\n".join(text.strip().splitlines()[-12:])
    raise NearmetalError(f"ansible could not start:\n{tail}", FAILED)
