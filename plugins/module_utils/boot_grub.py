# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GRUB with a generated grub.cfg: Debian, Ubuntu, SUSE, and Red Hat's without boot loader entries.

What counts is the `linux` line of the default entry in grub.cfg. On a live host the distribution's
generator writes it from the defaults; in a tree, where nothing is run, the lines that the generator
would write anew (its own entries, but not recovery ones) are edited with the defaults.
"""

from __future__ import annotations

import itertools
from typing import Dict, Iterator, List, Optional, Tuple

from . import cmdline, grubenv, grubscript, textedit
from .boot_defaults import Defaults
from .bootplan import FileEdit, Loader, LoaderError, Plan, Reading, distinct, text_or_none
from .cmdline import Request
from .grubscript import Entry, Menu, Token
from .host import Host
from .words import Word

_ESPS = ("/boot/efi", "/efi", "/boot")


def find_cfg(host: Host) -> Tuple[str, str, Optional[Menu]]:
    """(path, text, menu) of the grub.cfg with the menu; ("", "", None) where there is none.

    A grub.cfg on the EFI system partition is mostly a stub that points to the one under /boot; where
    it is a full one (Red Hat before 9, SUSE) and the firmware is EFI, it is the one that counts.
    """
    inner = iter(("/boot/grub/grub.cfg", "/boot/grub2/grub.cfg"))
    outer = _on_esp(host, "grub.cfg")
    for path in itertools.chain(outer, inner) if host.exists("/sys/firmware/efi") else itertools.chain(inner, outer):
        text = text_or_none(host, path)
        if text is not None:
            menu = grubscript.menu(text)
            if not menu.stub:
                return path, text, menu
    return "", "", None


def find_env(host: Host, cfg: str) -> Tuple[str, Dict[str, str]]:
    """(path, variables) of the environment block; the path where it belongs if there is none."""
    folder = cfg.rpartition("/")[0]
    candidates = ["/boot/grub2/grubenv", "/boot/grub/grubenv"]
    if folder in ("/boot/grub2", "/boot/grub"):
        candidates.insert(0, folder + "/grubenv")
    for path in itertools.chain(candidates, _on_esp(host, "grubenv")):
        text = text_or_none(host, path)
        if text is not None:
            try:
                return path, grubenv.read(text)
            except ValueError as err:
                raise LoaderError("%s: %s; make it anew with grub-editenv %s create" % (path, err, path)) from None
    return candidates[0], {}


def _on_esp(host: Host, name: str) -> Iterator[str]:
    """Where a file of GRUB's may be on the EFI system partition, which is only looked at if need be."""
    for esp in _ESPS:
        for vendor in host.names(esp + "/EFI"):
            yield "%s/EFI/%s/%s" % (esp, vendor, name)


def default_name(menu: Optional[Menu], env: Dict[str, str]) -> str:
    """What `default` will be at the next boot: an index, a title or an id."""
    name = menu.default if menu is not None else "${saved_entry}"
    return env.get("saved_entry", "0") if "saved_entry" in name else name


class Grub(Loader):
    """See the module."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.cfg, self.text, self.menu = find_cfg(host)
        self.env_path, self.env = find_env(host, self.cfg)
        self.defaults = Defaults(host)
        if self.menu is not None and not self.menu.entries and self.defaults.exist and not host.live:
            self.menu = None  # an image whose menu is still to be generated

    def read(self) -> Reading:
        """The default entry of grub.cfg; without a grub.cfg, what the defaults evaluate to."""
        reading = Reading("grub", sources=self.defaults.sources)
        line = cmdline.join(self.defaults.line())
        if self.menu is None:
            reading.configured = line
            return reading
        reading.sources.append(self.cfg)
        if self.menu.signed:
            reading.sealed = "GRUB only loads signed files here (check_signatures=enforce in %s)" % self.cfg
            return reading
        entry = self.menu.find(default_name(self.menu, self.env))
        if entry is None or entry.linux is None:
            reading.sealed = self._no_linux(entry)
            return reading
        reading.configured = self._line(entry)
        others = [self._line(other) for other in self._generated(self.menu)]
        reading.others = distinct([*others, *([line] if self.defaults.exist else [])], reading.configured)
        return reading

    def _no_linux(self, entry: Optional[Entry]) -> str:
        if entry is None:
            return "%s has no menu entry" % self.cfg
        what = "it loads %s" % ", ".join(dict.fromkeys(entry.commands)) if entry.commands else "it is empty"
        return (
            "the default entry %r of %s has no linux line with arguments (%s): a chain-loaded loader or a unified "
            "kernel image has its own arguments" % (entry.title, self.cfg, what)
        )

    def _line(self, entry: Entry) -> str:
        return cmdline.join(self._words(entry.linux or []))

    def _words(self, tokens: List[Token]) -> List[Word]:
        known = dict(self.menu.fallbacks if self.menu is not None else {}, **self.env)
        return grubscript.expand(tokens, known)

    def _generated(self, menu: Menu) -> List[Entry]:
        """Entries that the generator writes from the defaults, without those for recovery."""
        found = [e for e in menu.walk() if e.linux is not None and not e.recovery]
        marked = [e for e in menu.walk() if e.section]
        return [e for e in found if e.section.startswith("10_linux") or not marked]

    def plan(self, wanted: Request) -> Plan:
        """Edits of the defaults, then the generator, or on a tree what it would do."""
        edits, warnings = self.defaults.change(wanted)
        plan = Plan(edits, warnings=warnings)
        reading = self.read()
        if self.menu is None:
            plan.after = cmdline.join(Defaults(_Overlay(self.host, edits)).line())
            return plan
        if reading.met(wanted):
            plan.after = reading.configured or ""
            return plan
        text = self._edited(self.menu, wanted)
        menu = grubscript.menu(text)
        entry = menu.find(default_name(menu, self.env))
        words = self._words(entry.linux or []) if entry is not None else []
        plan.after = cmdline.join(words)
        if cmdline.changes([words], wanted):
            raise LoaderError(self._wont(entry, plan.after))
        if self.host.live:
            plan.commands = [self._generator()]
            plan.guarded = [self.cfg, self.cfg + ".new"]  # the generator leaves the latter where it fails
        elif text != self.text:
            plan.edits.append(FileEdit(self.cfg, self.text, text))
        return plan

    def _edited(self, menu: Menu, wanted: Request) -> str:
        edits: List[textedit.Edit] = []
        for entry in self._generated(menu):
            tokens = entry.linux or []
            todo = cmdline.changes([[token.word for token in tokens]], wanted)
            spans = [(token.start, token.end) for token in tokens]
            end = tokens[-1].end if tokens else entry.linux_end
            edits += textedit.splice(self.text, spans, todo, grubscript.quote, end)
        return textedit.edited(self.text, edits)

    def _wont(self, entry: Optional[Entry], line: str) -> str:
        if entry is not None and not entry.section.startswith("10_linux") and entry.section:
            return "the default entry %r of %s comes from %s, not from %s: its arguments stay %s" % (
                entry.title, self.cfg, entry.section, self.defaults.paths[0], line)  # fmt: skip
        if entry is not None and entry.recovery:
            return "the default entry %r of %s is for recovery: its arguments stay %s" % (entry.title, self.cfg, line)
        return "GRUB would pass %s, which is not what was asked: a variable in the entry adds words" % line

    def _generator(self) -> List[str]:
        for command in ("/usr/sbin/update-grub", "/sbin/update-grub"):
            if self.host.exists(command):
                return [command]
        for command in ("grub2-mkconfig", "grub-mkconfig"):
            for folder in ("/usr/sbin/", "/usr/bin/", "/sbin/"):
                if self.host.exists(folder + command):
                    return [folder + command, "-o", self.cfg]
        raise LoaderError("neither update-grub nor grub-mkconfig is installed: %s cannot be written" % self.cfg)


class _Overlay(Host):
    """A host with some files already edited: what the defaults will say."""

    def __init__(self, host: Host, edits: List[FileEdit]) -> None:
        self.host = host
        self.edits = {edit.path: edit.new for edit in edits}

    def read_bytes(self, path: str) -> bytes:
        if path in self.edits:
            return self.edits[path].encode("utf-8", "surrogateescape")
        return self.host.read_bytes(path)

    def list(self, path: str) -> List[str]:
        names = {p.rpartition("/")[2] for p in self.edits if p.rpartition("/")[0] == path}
        return sorted({*self.host.names(path), *names})

    def readlink(self, path: str) -> str:
        return self.host.readlink(path)

    def exists(self, path: str) -> bool:
        return path in self.edits or self.host.exists(path)
