# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""/etc/default/grub and what is sourced after it: where GRUB's generator takes the arguments from.

The generator makes `root=... ro $GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT` of a normal entry and
uses only GRUB_CMDLINE_LINUX for a recovery entry. Debian and its kin source /etc/default/grub.d/*.cfg
after /etc/default/grub; others do not.
"""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Sequence, Tuple

from . import cmdline, grubscript, shellvars, textedit
from .bootplan import FileEdit, LoaderError, text_or_none
from .cmdline import Change, Request
from .host import Host
from .words import Word

FILE = "/etc/default/grub"
FOLDER = "/etc/default/grub.d"
SNIPPET = FOLDER + "/zz-nearmetal.cfg"
NAMES = ("GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT")

_HEADER = "# Written by nearmetal, because the files sourced before it could not be edited. Sorts last.\n"


def os_ids(host: Host) -> List[str]:
    """ID and ID_LIKE of os-release; none where there is no such file."""
    text = text_or_none(host, "/etc/os-release") or text_or_none(host, "/usr/lib/os-release") or ""
    found = re.findall(r"^(?:ID|ID_LIKE)=[\"']?([^\"'\n]*)", text, re.MULTILINE)
    return [word for value in found for word in value.split()]


class Defaults:
    """The variables, and edits of the files that set them."""

    def __init__(self, host: Host) -> None:
        self.host = host
        ids = os_ids(host)
        self.snippets = bool({"debian", "ubuntu"} & set(ids)) or (not ids and host.exists(FOLDER))
        """Whether the distribution sources the folder."""
        # Red Hat's tools only know GRUB_CMDLINE_LINUX.
        self.append_to = 0 if {"rhel", "fedora", "centos"} & set(ids) else 1
        self.paths = [FILE]
        if self.snippets:
            names = [n for n in host.names(FOLDER) if n.endswith(".cfg") and not n.startswith(".")]
            self.paths += ["%s/%s" % (FOLDER, name) for name in names]
        self.there = {path: text_or_none(host, path) for path in self.paths}
        self.texts = [self.there[path] or "" for path in self.paths]
        self.values = shellvars.evaluate(self.texts)

    @property
    def exist(self) -> bool:
        """Whether there is any such file."""
        return any(text is not None for text in self.there.values())

    @property
    def sources(self) -> List[str]:
        """Files that are there."""
        return [path for path in self.paths if self.there[path] is not None]

    def get(self, name: str) -> str:
        """Value of any variable."""
        return self.values.get(name)

    def line(self) -> List[Word]:
        """What a normal entry gets behind root= and ro."""
        return [word for part in _parts(self.values) for word in part]

    def change(self, wanted: Request) -> Tuple[List[FileEdit], List[str]]:
        """(edits, warnings): each word is changed where it stands, if that has the effect that it should."""
        parts = _parts(self.values)
        todo = cmdline.changes(parts, wanted, self.append_to)
        if not todo:
            return [], []
        target = [cmdline.carry_out(words, part, todo) for part, words in enumerate(parts)]
        texts = self._in_place(todo)
        warnings: List[str] = []
        if texts is None or not _says(texts, target):
            texts, warnings = self._behind(parts, target)
        edits = [
            FileEdit(path, self.there.get(path), text)
            for path, text in texts.items()
            if text != (self.there.get(path) or "")
        ]
        return edits, warnings

    def _in_place(self, todo: Sequence[Change]) -> Optional[Dict[str, str]]:
        """New texts of all files by path, or None where a word cannot be edited where it stands."""
        edits: Dict[int, List[textedit.Edit]] = {}
        for part, name in enumerate(NAMES):
            changes = [change for change in todo if change.part == part]
            if changes and not self._edit(name, changes, edits):
                return None
        closed = {note.doc for note in self.values.beyond} if self.snippets else set()
        if closed & set(edits):
            return None
        return {
            path: textedit.edited(text, edits.get(doc, ()))
            for doc, (path, text) in enumerate(zip(self.paths, self.texts))
        }

    def _edit(self, name: str, changes: Sequence[Change], edits: Dict[int, List[textedit.Edit]]) -> bool:
        """Collect the edits of one variable; False where some character has no single place."""
        chars = self.values.chars.get(name, [])
        value = "".join(c.char for c in chars)
        spans = [(token.start, token.end) for token in grubscript.tokens(value)]
        gone: List[int] = []
        for change in changes:
            new = " ".join(grubscript.quote(word) for word in change.words)
            if change.insert and change.at >= len(spans):
                self._append(name, value, new, edits)
            elif not change.words:
                gone.append(change.at)
            else:
                start, end = spans[change.at]
                place = shellvars.span(chars[start:end])
                if place is None:
                    return False
                doc, begin, stop = place
                text = shellvars.escape(new + " " if change.insert else new, chars[start].context)
                edits.setdefault(doc, []).append(textedit.Edit(begin, begin if change.insert else stop, text))
        for (start, end), run in textedit.removals(value, spans, gone):
            whole = shellvars.span(chars[start:end])
            places = [whole] if whole else [shellvars.span(chars[spans[i][0] : spans[i][1]]) for i in run]
            for place in places:
                if place is None:
                    return False
                edits.setdefault(place[0], []).append(textedit.Edit(place[1], place[2], ""))
        return True

    def _append(self, name: str, value: str, new: str, edits: Dict[int, List[textedit.Edit]]) -> None:
        last = [one for one in self.values.assignments if one.name == name][-1:]
        if last:
            doc = last[0].doc
            added = (" " if value and not value[-1].isspace() else "") + new
            edits.setdefault(doc, []).append(textedit.Edit(*shellvars.at_end(last[0], self.texts[doc], added)))
        else:
            end = len(self.texts[0])
            line = '%s="%s"\n' % (name, shellvars.escape(new, shellvars.DOUBLE))
            start = "\n" if self.texts[0] and not self.texts[0].endswith("\n") else ""
            edits.setdefault(0, []).append(textedit.Edit(end, end, start + line))

    def _behind(
        self, parts: Sequence[Sequence[Word]], target: Sequence[Sequence[Word]]
    ) -> Tuple[Dict[str, str], List[str]]:
        """New texts with lines that come after everything else: in a snippet, or at the file's end."""
        path = SNIPPET if self.snippets else FILE
        text = self.there.get(path) or (_HEADER if path == SNIPPET else "")
        if text and not text.endswith("\n"):
            text += "\n"
        for name, before, after in zip(NAMES, parts, target):
            if list(before) != list(after):
                text = self._line(name, before, after, text)
        texts = dict(zip(self.paths, self.texts))
        texts[path] = text
        if not _says({p: texts[p] for p in sorted(texts, key=lambda p: (p != FILE, p))}, target):
            raise LoaderError(
                "%s: the variables %s cannot be set so that GRUB gets %s; set them by hand"
                % (", ".join(self.sources) or path, " and ".join(NAMES), cmdline.join(w for p in target for w in p))
            )
        return texts, self._say_why(path)

    def _line(self, name: str, before: Sequence[Word], after: Sequence[Word], text: str) -> str:
        if list(after[: len(before)]) == list(before):
            new = shellvars.escape(_render(after[len(before) :]), shellvars.DOUBLE)
            return text + '%s="${%s:+$%s }%s"\n' % (name, name, name, new)
        doubt = self.values.doubt(name)
        if doubt is not None:
            raise LoaderError(
                "%s line %d does more than assign (%s), so what %s becomes is not known and words cannot be taken "
                "out of it; edit it there by hand" % (self.paths[doubt.doc], doubt.line, doubt.text, name)
            )
        if text.startswith(_HEADER):
            text = re.sub(r"^%s=.*\n" % name, "", text, flags=re.MULTILINE)
        return text + '%s="%s"\n' % (name, shellvars.escape(_render(after), shellvars.DOUBLE))

    def _say_why(self, path: str) -> List[str]:
        for note in self.values.beyond:
            return [
                "%s line %d does more than assign (%s): it is left as it is, and kernel arguments are set in %s"
                % (self.paths[note.doc], note.line, note.text, path)
            ]
        return ["the kernel arguments of %s are put together of several values: set in %s" % (FILE, path)]


def _render(words: Sequence[Word]) -> str:
    return " ".join(grubscript.quote(word) for word in words)


def _parts(values: shellvars.Values) -> List[List[Word]]:
    return [[token.word for token in grubscript.tokens(values.get(name))] for name in NAMES]


def _says(texts: Dict[str, str], target: Sequence[Sequence[Word]]) -> bool:
    """Whether the files, read again, give the words that they should."""
    parts = _parts(shellvars.evaluate(list(texts.values())))
    return [[w.text for w in words] for words in parts] == [[w.text for w in words] for words in target]
