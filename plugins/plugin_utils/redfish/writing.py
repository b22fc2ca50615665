# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Submit values, see that exactly these are pending, and have a job where the vendor wants one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import jobs
from .client import Answer, Bmc
from .errors import BmcError, blamed, said
from .reading import is_dell

SCHEDULED_S = 120.0
"""Seconds in which a job that was made must be ready to run."""


def submit(bmc: Bmc, document: Mapping[str, Any], body: Mapping[str, Any], job_timeout: float = SCHEDULED_S) -> dict[str, Any]:
    """PATCH the values of `body`; returns the job that will apply them, {} where there is none. Raises BmcError.

    document: what was read of the BMC; its registry, where there is one, explains a refusal.
    """
    bios = document["bios"]
    values = body["Attributes"]
    try:
        answer = bmc.patch(bios["settings_path"], body, bios["settings_etag"])
    except BmcError as err:
        if err.kind != "refused":
            raise
        raise BmcError("refused", f"{err}; sent: {blamed(str(err), values, document['registry'])}", err.status) from err
    partly = said(answer.body) if answer.status != 202 else ""
    made = _job(bmc, document, answer, min(job_timeout, SCHEDULED_S))
    read_back(bmc, document, values, partly)
    return made


def read_back(bmc: Bmc, document: Mapping[str, Any], values: Mapping[str, Any], said_before: str = "") -> None:
    """Raises BmcError where anything that was sent is neither pending nor in force."""
    pending = bmc.get(document["bios"]["settings_path"]).get("Attributes") or {}
    missing = {k: v for k, v in values.items() if not _same(pending.get(k), v)}
    if missing:
        current = bmc.get(document["bios"]["path"]).get("Attributes") or {}
        missing = {k: v for k, v in missing.items() if not _same(current.get(k), v)}
    if missing:
        names = blamed("", missing, document["registry"])
        raise BmcError("refused", f"{bmc.uri} took the values, but these are not pending: {names}"
                       + (f". It said: {said_before}" if said_before else ""))  # fmt: skip


def _same(found: Any, wanted: Any) -> bool:
    return found == wanted and isinstance(found, bool) == isinstance(wanted, bool) or str(found) == str(wanted)


def _job(bmc: Bmc, document: Mapping[str, Any], answer: Answer, seconds: float) -> dict[str, Any]:
    """Follow the job that was made until a boot will run it; make one where Dell has made none by itself."""
    path, bios = str(answer.headers.get("Location") or ""), document["bios"]
    if not is_dell(document):
        return {}  # a task of others ends with the boot; what counts is what is pending
    if not path:
        waiting = jobs.unfinished(bmc, bios["jobs_path"])
        if waiting:
            path = waiting[0]["path"]
        else:
            made = bmc.fetch("POST", bios["jobs_path"], {"TargetSettingsURI": bios["settings_path"]})
            path = str(made.headers.get("Location") or "")
    if not path:
        return {}
    return jobs.follow(bmc, bmc.local(path), lambda job: job["state"] in jobs.READY, seconds)
