# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Boot loaders whose arguments stand in boot loader entries: GRUB's blscfg, and systemd-boot.

All entries but those for rescue are edited, so that an older kernel does not come up without the
arguments; kernels installed later take them from /etc/kernel/cmdline, with GRUB also from
/etc/default/grub (and from `kernelopts` of the environment block on RHEL 8).
"""

from __future__ import annotations

import re
from typing import Callable, Dict, List, Mapping, Optional, Sequence

from . import bls, cmdline, grubenv, grubscript, textedit
from .boot_defaults import Defaults
from .boot_grub import default_name, find_cfg, find_env
from .bootplan import FileEdit, Loader, LoaderError, Plan, Reading, distinct, line_met, text_or_none
from .cmdline import Request
from .grubscript import Token
from .host import Host, HostError
from .words import Word

KERNEL_CMDLINE = "/etc/kernel/cmdline"
VENDOR_CMDLINE = "/usr/lib/kernel/cmdline"


def raw(word: Word) -> str:
    """How a word is written where no loader interprets it."""
    return word.raw


def _in_variable(word: Word) -> str:
    """A word in kernelopts, so that it survives both a GRUB that reads the variable's text as a script and one that not.

    RHEL 8's puts the text into a script, where a bare `;` ends the command. Quotes around a value the kernel takes away.
    """
    sealed = re.search(r"[;&|<>]", word.raw) and not re.search(r'[\\"$]', word.text)
    return grubscript.quote(word) if sealed else word.raw


def entry_files(host: Host, folder: str) -> List[bls.EntryFile]:
    """The entries in a folder that boot Linux, in no order that matters."""
    found = []
    for name in host.names(folder):
        if name.endswith(".conf") and not name.startswith("."):
            path = "%s/%s" % (folder, name)
            found.append(bls.read(path, host.read(path)))
    return found


class Entries(Loader):
    """What is common to loaders with entries."""

    name = ""
    split: Callable[[str], List[Token]] = staticmethod(bls.kernel_tokens)
    render: Callable[[Word], str] = staticmethod(raw)

    def __init__(self, host: Host, folder: str) -> None:
        self.host = host
        self.folder = folder
        self.files = entry_files(host, folder)
        self.default = self.find_default()
        self.kernel_cmdline = text_or_none(host, KERNEL_CMDLINE)

    def find_default(self) -> Optional[bls.EntryFile]:
        """The entry that boots next."""
        raise NotImplementedError

    def expand(self, tokens: List[Token]) -> List[Word]:
        """Arguments that the kernel gets."""
        return [Word(token.raw, token.raw.replace('"', "")) for token in tokens]

    def linux(self) -> List[bls.EntryFile]:
        """Entries that pass arguments to a kernel."""
        return [entry for entry in self.files if entry.boots_linux]

    def targets(self) -> List[bls.EntryFile]:
        """Entries that are to be changed."""
        return [entry for entry in self.linux() if not entry.rescue]

    def line(self, entry: bls.EntryFile) -> str:
        """What an entry passes to its kernel."""
        return cmdline.join(self.expand(entry.tokens(self.split)))

    def future(self) -> List[str]:
        """What kernels installed later will get."""
        return [] if self.kernel_cmdline is None else [" ".join(self.kernel_cmdline.split())]

    def read(self) -> Reading:
        """The default entry."""
        reading = Reading(self.name, sources=[entry.path for entry in self.linux()])
        if self.kernel_cmdline is not None:
            reading.sources.append(KERNEL_CMDLINE)
        if self.default is None:
            reading.sealed = "%s has no boot entry" % self.folder
        elif not self.default.boots_linux:
            reading.sealed = (
                "the default entry %s starts an EFI program (%s), not a kernel with arguments: a unified kernel "
                "image has its own, sealed ones" % (self.default.path, self.default.program or "?")
            )
        else:
            reading.configured = self.line(self.default)
            lines = [self.line(entry) for entry in self.targets()] + self.future()
            reading.others = distinct(lines, reading.configured)
        return reading

    def plan(self, wanted: Request) -> Plan:
        """Edits of all entries and of what new kernels inherit."""
        if self.default is None or not self.default.boots_linux:
            raise LoaderError(self.read().sealed)
        plan = Plan()
        after = self.line(self.default)
        for entry in self.targets():
            text = self.edit(entry, wanted)
            if text != entry.text:
                plan.edits.append(FileEdit(entry.path, entry.text, text))
            if entry is self.default:
                after = self.line(bls.read(entry.path, text))
        plan.after = after
        if not line_met(after, wanted):
            raise LoaderError(
                "%s would pass %s, which is not what was asked: %s" % (
                    self.default.path, after,
                    "it is for rescue" if self.default.rescue else "a variable in the entry adds words"))  # fmt: skip
        self.inherit(plan, wanted)
        return plan

    def edit(self, entry: bls.EntryFile, wanted: Request) -> str:
        """An entry's text after the request; a variable in it may already give what is asked."""
        tokens = entry.tokens(self.split)
        if not cmdline.changes([self.expand(tokens)], wanted):
            return entry.text
        todo = cmdline.changes([[token.word for token in tokens]], wanted)
        return entry.edited(tokens, todo, self.render)

    def inherit(self, plan: Plan, wanted: Request) -> None:
        """Add the edits that give the arguments to kernels installed later."""
        text = self.kernel_cmdline
        if text is not None:
            tokens = self.split(text)
            todo = cmdline.changes([[token.word for token in tokens]], wanted)
            spans = [(token.start, token.end) for token in tokens]
            edits = textedit.splice(text, spans, todo, self.render, len(text.rstrip()))
            if edits:
                plan.edits.append(FileEdit(KERNEL_CMDLINE, text, textedit.edited(text, edits)))


class GrubEntries(Entries):
    """GRUB with BLS: Fedora and RHEL since 8. Options are words of GRUB's script language."""

    name = "grub-bls"
    split = staticmethod(grubscript.tokens)
    render = staticmethod(grubscript.quote)

    def __init__(self, host: Host, folder: str) -> None:
        self.cfg, _text, self.menu = find_cfg(host)
        self.env_path, self.env = find_env(host, self.cfg)
        self.known: Dict[str, str] = dict(self.menu.fallbacks if self.menu else {}, **self.env)
        self.defaults = Defaults(host)
        super().__init__(host, folder)

    def find_default(self) -> Optional[bls.EntryFile]:
        """By saved_entry and the sort order of blscfg; index 0 where that fits nothing."""
        return bls.pick(bls.for_grub(self.linux()), default_name(self.menu, self.env))

    def expand(self, tokens: List[Token]) -> List[Word]:
        """With variables of grub.cfg and the environment block; others stay as they are written."""
        return grubscript.expand(tokens, self.known)

    def read(self) -> Reading:
        """The default entry, and the files that are GRUB's own."""
        reading = super().read()
        own = [self.cfg, self.env_path if self.env else ""]
        reading.sources += self.defaults.sources + [path for path in own if path]
        if self.menu is not None and self.menu.signed:
            reading.sealed = "GRUB only loads signed files here (check_signatures=enforce in %s)" % self.cfg
            reading.configured = None
        return reading

    def future(self) -> List[str]:
        """Also GRUB_CMDLINE_LINUX, which grub2-mkconfig makes kernelopts and /etc/kernel/cmdline from."""
        lines = super().future()
        if self.defaults.exist:
            lines.append(cmdline.join(self.defaults.line()))
        if self._uses_kernelopts():
            lines.append(self.known["kernelopts"])
        return lines

    def _uses_kernelopts(self) -> bool:
        return "kernelopts" in self.known and any(
            grubscript.variable(token.raw) == "kernelopts" for e in self.targets() for token in e.tokens(self.split)
        )

    def plan(self, wanted: Request) -> Plan:
        """`kernelopts` first: entries that use it then only must not contradict it."""
        former = self.known
        shared: List[FileEdit] = []
        if self._uses_kernelopts():
            words = cmdline.apply_parts([cmdline.parse(former["kernelopts"])], wanted)[0]
            value = " ".join(_in_variable(word) for word in words)
            if value != former["kernelopts"]:
                shared = [self._env_edit(value)]
                self.known = dict(former, kernelopts=value)
        try:
            plan = super().plan(wanted)
        finally:
            self.known = former
        plan.edits[:0] = shared
        return plan

    def _env_edit(self, value: str) -> FileEdit:
        text = text_or_none(self.host, self.env_path)
        try:
            # GRUB itself writes this file by its place on the disk: never replaced by another inode.
            return FileEdit(self.env_path, text, grubenv.change(text or "", "kernelopts", value), in_place=True)
        except ValueError as err:
            raise LoaderError("%s: %s" % (self.env_path, err)) from None

    def edit(self, entry: bls.EntryFile, wanted: Request) -> str:
        """Words beside `$kernelopts` that contradict it go; without it, as everywhere."""
        tokens = entry.tokens(self.split)
        if "kernelopts" not in [grubscript.variable(token.raw) for token in tokens] or "kernelopts" not in self.known:
            return super().edit(entry, wanted)
        if not cmdline.changes([self.expand(tokens)], wanted):
            return entry.text  # after the change of kernelopts
        gone = Request({}, (*wanted.names, *wanted.groups), wanted.words)
        todo = cmdline.changes([[token.word for token in tokens]], gone)
        return entry.edited(tokens, todo, self.render)

    def inherit(self, plan: Plan, wanted: Request) -> None:
        """Also the defaults."""
        super().inherit(plan, wanted)
        if self.defaults.exist:
            edits, warnings = self.defaults.change(wanted)
            plan.edits += edits
            plan.warnings += warnings

    def confirm(self, wanted: Request) -> Reading:
        """Also ask grubby, where it is installed, what the default entry passes."""
        reading = self.read()
        if not any(self.host.exists(path) for path in ("/usr/sbin/grubby", "/sbin/grubby")):
            return reading
        try:
            said = self.host.run(["grubby", "--info=DEFAULT"])
        except HostError:
            return reading
        line = _grubby_args(said.stdout, self.known)
        if said.rc == 0 and line is not None and not line_met(line, wanted):
            raise LoaderError("grubby says that the default entry passes %s, but written is %s" % (
                line, reading.configured))  # fmt: skip
        return reading


def _grubby_args(text: str, known: Mapping[str, str]) -> Optional[str]:
    """The args="..." line of `grubby --info`."""
    for line in text.splitlines():
        key, _sep, value = line.partition("=")
        if key == "args":
            inner = value[1:-1] if value[:1] == '"' == value[-1:] else value
            return cmdline.join(grubscript.expand(grubscript.tokens(inner), known))
    return None


class SystemdBoot(Entries):
    """systemd-boot: options are passed on literally."""

    name = "systemd-boot"

    def __init__(self, host: Host, folder: str, chosen: Sequence[str] = ()) -> None:
        self.chosen = [name for name in chosen if name]
        self.conf = text_or_none(host, folder.rpartition("/")[0] + "/loader.conf") or ""
        super().__init__(host, folder)

    def find_default(self) -> Optional[bls.EntryFile]:
        """By the EFI variable, else loader.conf's pattern, else the menu's order."""
        entries = bls.for_systemd([e for e in self.files if e.boots_linux or e.program])
        patterns = re.findall(r"^[ \t]*default[ \t]+(\S+)", self.conf, re.MULTILINE)
        for pattern in [*self.chosen, *patterns]:
            if pattern == "@saved":
                continue
            found = bls.match(entries, pattern)
            if found is not None:
                return found
        kernels = [e for e in entries if not e.rescue and e.boots_linux]
        return next(iter(entries if patterns or not kernels else kernels), None)

    def inherit(self, plan: Plan, wanted: Request) -> None:
        """kernel-install copies the running kernel's arguments where there is no file: too early a state."""
        if self.kernel_cmdline is None and plan.edits:
            vendor = text_or_none(self.host, VENDOR_CMDLINE)
            words = cmdline.parse(vendor if vendor is not None else plan.after)
            words = [w for w in words if w.name not in ("initrd", "systemd.machine_id")]
            new = cmdline.apply_parts([words], wanted)[0]
            plan.edits.append(FileEdit(KERNEL_CMDLINE, None, cmdline.join(new) + "\n"))
        else:
            super().inherit(plan, wanted)
