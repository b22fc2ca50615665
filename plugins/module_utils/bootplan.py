# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every boot loader answers: what it is configured for, and what a request would change."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import Dict, List, NamedTuple, Optional, Sequence

from . import cmdline
from .cmdline import Request
from .host import Host, HostError, Missing


class LoaderError(Exception):
    """Kernel arguments cannot be read or changed here; the message says why and what was left."""


@dataclass
class Reading:
    """Lines as the loader would pass them."""

    loader: str
    configured: Optional[str] = None  # of the default entry; None where it cannot be known
    others: List[str] = field(default_factory=list)  # of other entries, and what new kernels will get
    sealed: str = ""
    sources: List[str] = field(default_factory=list)

    def met(self, wanted: Request) -> bool:
        """Whether the default entry, the other ones and new kernels get what is asked."""
        return all(line_met(line, wanted) for line in [self.configured or "", *self.others])


def line_met(line: str, wanted: Request) -> bool:
    """Whether a configured line is as asked."""
    return not cmdline.changes([cmdline.parse(line)], wanted)


class FileEdit(NamedTuple):
    """One file to write. `old` is None where it does not exist yet."""

    path: str
    old: Optional[str]
    new: str
    in_place: bool = False


@dataclass
class Plan:
    """What a request changes."""

    edits: List[FileEdit] = field(default_factory=list)
    after: str = ""  # the default entry's line afterwards
    commands: List[List[str]] = field(default_factory=list)  # to be run on a live host after the edits
    guarded: List[str] = field(default_factory=list)  # files that the commands write
    warnings: List[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.edits or self.commands)


class Loader(abc.ABC):
    """A boot loader's configuration on a host."""

    @abc.abstractmethod
    def read(self) -> Reading:
        """What is configured; raises HostError where a file cannot be read, LoaderError otherwise."""

    @abc.abstractmethod
    def plan(self, wanted: Request) -> Plan:
        """What must be changed for the request; raises LoaderError where it cannot be."""

    def confirm(self, wanted: Request) -> Reading:
        """Read again after the change; a second opinion of the loader's own tool may be heard."""
        return self.read()


@dataclass
class Sealed(Loader):
    """A host whose arguments cannot be changed from inside."""

    why: str
    loader: str = ""

    def read(self) -> Reading:
        """Nothing but the reason."""
        return Reading(loader=self.loader, sealed=self.why)

    def plan(self, wanted: Request) -> Plan:
        """Refuse."""
        raise LoaderError(self.why)


def distinct(lines: Sequence[str], but: Optional[str] = None) -> List[str]:
    """Lines without repetition, and without one of them."""
    return [line for line in dict.fromkeys(lines) if line != but]


def text_or_none(host: Host, path: str) -> Optional[str]:
    """Content of a file, None where there is none."""
    try:
        return host.read(path)
    except Missing:
        return None


def commit(host: Host, plan: Plan) -> Dict[str, Optional[str]]:
    """Write the files and run the commands. Returns the former content of all that may have changed.

    Where anything fails, every file gets its former content back and LoaderError says what failed.
    """
    former: Dict[str, Optional[str]] = {path: text_or_none(host, path) for path in plan.guarded}
    try:
        for edit in plan.edits:
            former[edit.path] = edit.old
            host.write(edit.path, edit.new, in_place=edit.in_place and edit.old is not None)
        for argv in plan.commands:
            _run(host, argv)
    except HostError as err:
        raise LoaderError("%s. %s" % (err, restore(host, former))) from err
    return former


def _run(host: Host, argv: List[str]) -> None:
    done = host.run(argv)
    if done.rc:
        lines = dict.fromkeys(line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip())
        said = " / ".join([line for line in lines if "warning:" not in line][-3:])
        raise HostError(" ".join(argv), "exit status %d: %s" % (done.rc, said or "no message"))


def restore(host: Host, former: Dict[str, Optional[str]]) -> str:
    """Give files their former content; the sentence that says how it went."""
    lost: List[str] = []
    for path, text in former.items():
        try:
            now = text_or_none(host, path)
            if now == text:
                continue
            if text is None:
                host.remove(path, backup=False)
            else:
                # In place and without a backup: both would need room that a full disk does not have.
                host.write(path, text, in_place=now is not None, backup=False)
        except HostError as err:
            lost.append(str(err))
    if lost:
        return "The former files could NOT all be restored (%s)" % "; ".join(lost)
    return "The former files were restored, nothing was changed"
