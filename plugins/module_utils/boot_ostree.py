# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""rpm-ostree and ostree: arguments belong to a deployment.

On a live host `rpm-ostree kargs` makes a new deployment from the default one; in a tree (and on hosts
without rpm-ostree, whose next deployment inherits them) the default deployment's entry is edited. Older
deployments are what one rolls back to, so they keep theirs.
"""

from __future__ import annotations

import re
from typing import List, Optional

from . import bls, cmdline
from .boot_entries import Entries, entry_files
from .bootplan import Loader, LoaderError, Plan, Reading
from .cmdline import Request
from .host import Host
from .words import Word

TOOL = "/usr/bin/rpm-ostree"
FOLDER = "/boot/loader/entries"


def present(host: Host) -> bool:
    """Whether this host is booted from ostree deployments."""
    if any(host.exists(path) for path in ("/run/ostree-booted", "/ostree/repo", "/ostree/repo/config")):
        return True
    return any(re.search(r"^options\s.*\bostree=/ostree/", e.text, re.MULTILINE) for e in entry_files(host, FOLDER))


def _number(entry: bls.EntryFile) -> int:
    version = entry.fields.get("version", "")
    return int(version) if version.isdigit() else -1


class OstreeEntries(Entries):
    """Entries that ostree writes; the deployment with the highest number is the default."""

    name = "ostree"

    def find_default(self) -> Optional[bls.EntryFile]:
        """Entries are numbered in `version`."""
        entries = bls.for_grub(self.linux())
        entries.sort(key=_number, reverse=True)
        return entries[0] if entries else None

    def targets(self) -> List[bls.EntryFile]:
        """The default deployment."""
        return [self.default] if self.default is not None and self.default.boots_linux else []

    def future(self) -> List[str]:
        """A new deployment takes its arguments from the default one."""
        return []

    def inherit(self, plan: Plan, wanted: Request) -> None:
        """Nothing else: see `future`."""


class RpmOstree(Loader):
    """A live host with rpm-ostree, which also knows of a deployment that is only staged."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def _words(self) -> List[Word]:
        done = self.host.run([TOOL, "kargs"])
        if done.rc:
            raise LoaderError("rpm-ostree kargs: exit status %d: %s" % (done.rc, " ".join(done.stderr.split())[-400:]))
        return cmdline.parse(done.stdout)

    def read(self) -> Reading:
        """What rpm-ostree says of the pending default deployment."""
        return Reading("ostree", cmdline.join(self._words()), sources=[TOOL + " kargs"])

    def plan(self, wanted: Request) -> Plan:
        """One transaction: words that must go are deleted one by one, asked ones appended in their order."""
        words = self._words()
        todo = cmdline.changes([words], wanted)
        after = cmdline.carry_out(words, 0, todo)
        if not todo:
            return Plan(after=cmdline.join(words))
        gone = [words[change.at] for change in todo if not change.insert]
        new = [word for change in todo for word in change.words]
        options = ["--delete=%s" % word.raw for word in gone] + ["--append=%s" % word.raw for word in new]
        kept = [word for index, word in enumerate(words) if index not in {c.at for c in todo if not c.insert}]
        return Plan(after=cmdline.join([*kept, *new] if gone else after), commands=[[TOOL, "kargs", *options]])
