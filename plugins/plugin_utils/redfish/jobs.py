# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs of a Dell BMC: BIOS values take effect when their job has run, and not before, whatever the BIOS resource says."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .client import Bmc, link
from .errors import BmcError

QUEUE = "/redfish/v1/Managers/iDRAC.Embedded.1/Jobs"
EXPAND = "?$expand=*($levels=1)"
KIND = "bios"  # in JobType: BIOSConfiguration
MOST = 24
"""Jobs looked at one by one where the BMC does not list them with their contents; the newest."""
ENDED = ("Failed", "RebootCompleted", "RebootFailed", "Canceled", "Cancelled", "Exception", "Killed")  # and Completed...
BAD = ("CompletedWithErrors", "Failed", "Exception", "Killed")
READY = ("Scheduled", "Pending", "Running", "Starting")
"""The next boot carries it out."""
PAUSE = 5.0
STUCK_S = 120.0
"""A job that a boot should have run and that has not even begun by then will not run by itself."""


def queue(settings: Mapping[str, Any]) -> str:
    """Where the jobs are, by the settings resource."""
    oem = settings.get("Oem")
    return (link(oem.get("Dell"), "Jobs") if isinstance(oem, Mapping) else "") or QUEUE


def job(resource: Mapping[str, Any]) -> dict[str, Any]:
    """A job in our words."""
    return {
        "id": str(resource.get("Id") or ""), "state": str(resource.get("JobState") or resource.get("TaskState") or ""),
        "percent": int(resource.get("PercentComplete") or 0), "message": str(resource.get("Message") or ""),
        "path": str(resource.get("@odata.id") or ""),
    }  # fmt: skip


def unfinished(bmc: Bmc, path: str) -> list[dict[str, Any]]:
    """BIOS configuration jobs that have not ended. Raises BmcError."""
    try:
        found = bmc.get(path + EXPAND)
    except BmcError as err:
        if err.status not in (400, 404, 501):
            raise
        found = {}
    members = found.get("Members")
    if members is None:
        members = _plain(bmc, path)
    elif any(set(m) <= {"@odata.id"} for m in members):
        newest = sorted((m["@odata.id"] for m in members), reverse=True)[:MOST]
        members = [bmc.get(p) for p in newest]
    return [job(m) for m in members if KIND in str(m.get("JobType") or "").lower() and not ended(job(m))]


def _plain(bmc: Bmc, path: str) -> Sequence[Mapping[str, Any]]:
    """The same of a BMC that cannot expand, or has its queue at the usual place only."""
    try:
        found = bmc.get(path)
    except BmcError as err:
        if err.kind != "not_found":
            raise
        if path == QUEUE:
            return ()
        return _plain(bmc, QUEUE)
    newest = sorted((m["@odata.id"] for m in found.get("Members") or ()), reverse=True)[:MOST]
    return [bmc.get(p) for p in newest]


def ended(job: Mapping[str, Any]) -> bool:
    """Whether it will do nothing any more."""
    return job["state"] in ENDED or job["state"].startswith("Completed")


def follow(
    bmc: Bmc, path: str, until: Callable[[Mapping[str, Any]], bool], seconds: float,
    clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """A job once `until` is true of it. Raises BmcError (job) where it fails, or not in time."""
    start, pause = clock(), 0.5
    while True:
        found = job(bmc.get(path))
        if found["state"] in BAD:
            raise BmcError("job", f"{bmc.uri}: job {found['id']} ended with {found['state']}: {found['message'] or 'no reason given'}")
        if until(found) or ended(found):
            return found
        if clock() - start >= seconds:
            stands = f"{found['state']} ({found['percent']} %)"
            raise BmcError("job", f"{bmc.uri}: job {found['id']} is still {stands} after {seconds:.0f} s")
        sleep(pause)
        pause = min(pause * 2, PAUSE)


def wait_after_boot(
    bmc: Bmc, path: str, seconds: float, clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[dict[str, Any]]:
    """What is left when the jobs that a boot carries out have ended, or time is up. Raises BmcError where it is not reached."""
    start = clock()
    while True:
        left = unfinished(bmc, path)
        begun = any(j["state"] not in ("Scheduled", "Pending", "New") for j in left)
        if not left or clock() - start >= (seconds if begun else min(seconds, STUCK_S)):
            return left
        sleep(PAUSE)
