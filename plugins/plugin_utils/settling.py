# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From BIOS intent to pending values of one BMC: what the action bios_settings does in its session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.nearmetal.rack.plugins.module_utils import bios
from ansible_collections.nearmetal.rack.plugins.plugin_utils.redfish import (
    Bmc,
    Registries,
    jobs,
    reading,
    writing,
)

Document = dict[str, Any]
Options = Mapping[str, Any]
RUNNING = ("Running", "Starting")
"""States of a job that it is too late to delete."""


def lines(problems: Iterable[Any]) -> str:
    """Problems as the loop shows them, one a line."""
    return "\n".join(
        (f"{p.variable}={p.value!r}: " if p.variable else "") + f"{p.message.rstrip('.')}. Fix: {p.fix.rstrip('.')}." for p in problems
    )


def settle(bmc: Bmc, options: Options, check: bool) -> Document:
    """Read, compare, submit; the task's result. Raises BmcError."""
    document = read(bmc, options)
    found = bios.compare(options, document)
    if found.problems:
        return {"failed": True, "msg": lines(found.problems), **_result(found, document, False)}
    changed = bool(found.requested) or bool(found.clear)
    before = found
    if changed and not check:
        found, document = _write(bmc, options, found, document)
    result = _result(found, document, changed)
    result.update(requested=before.requested, diff=[_diff(document["uri"], before)] if changed else [])
    if changed:
        result["reset_required"] = True
    return result


def read(bmc: Bmc, options: Options) -> Document:
    """What the BMC says, with its registry where the comparison needs it."""
    document = reading.read(bmc, "secure_boot" in (options.get("settings") or {}))
    if bios.needs_registry(options, document):
        document["registry"] = Registries().of(bmc, document)
    return document


def _write(bmc: Bmc, options: Options, found: Any, document: Document) -> tuple[Any, Document]:
    """Submit what was found to be missing; what is so afterwards."""
    body = dict(found.body)
    if document["bios"]["jobs"]:
        lost = _take_back(bmc, document, found)
        found, document = _again(bmc, options, document)
        body = dict(found.body)
        lost = {name: value for name, value in lost.items() if name not in found.foreign_pending}
        if lost and body:
            body["Attributes"] = {**lost, **body["Attributes"]}
    if found.clear and document["bios"]["clear_action"]:
        bmc.fetch("POST", document["bios"]["clear_action"], {})
        found, document = _again(bmc, options, document)
        body = dict(found.body)
    if body:
        writing.submit(bmc, document, body, float(options.get("job_timeout") or jobs.STUCK_S))
    return _again(bmc, options, document)


def _again(bmc: Bmc, options: Options, document: Document) -> tuple[Any, Document]:
    registry = document["registry"]
    document = reading.read(bmc)
    document["registry"] = registry
    return bios.compare(options, document), document


def _take_back(bmc: Bmc, document: Document, found: Any) -> dict[str, Any]:
    """Delete the job that waits for the boot: beside it a Dell BMC takes no values. Returns the values of others, if kept."""
    for job in document["bios"]["jobs"]:
        if job["state"] in RUNNING:
            jobs.follow(bmc, job["path"], jobs.ended, jobs.STUCK_S)
        else:
            bmc.fetch("DELETE", job["path"])
    return {} if found.clear else {name: entry["pending"] for name, entry in found.foreign_pending.items()}


def _result(found: Any, document: Document, changed: bool) -> Document:
    return {
        "changed": changed, "requested": found.requested, "pending": found.pending, "foreign_pending": found.foreign_pending,
        "reset_required": found.reset_required, "current": found.current, "unsupported": list(found.unsupported),
        "warnings": list(found.warnings), "platform": bios.platform(document), "bios_version": document["bios_version"],
    }  # fmt: skip


def _diff(title: str, found: Any) -> dict[str, str]:
    """What is asked for, attribute by attribute; values of others that are dropped, too."""
    before = {name: found.current.get(name) for name in found.requested}
    after = dict(found.requested)
    if found.clear:
        before.update({name: f"{e['pending']} (pending)" for name, e in found.foreign_pending.items()})
        after.update({name: e["current"] for name, e in found.foreign_pending.items() if name not in after})

    def text(values: Mapping[str, Any]) -> str:
        return "".join(f"{name}: {values[name]}\n" for name in sorted(values))

    return {"before_header": title, "after_header": title, "before": text(before), "after": text(after)}
