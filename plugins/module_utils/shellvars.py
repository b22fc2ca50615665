# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables that shell files such as /etc/default/grub set, found without running anything.

Every character of a value remembers the place in a file that it comes from, so that a word can be
edited where it stands. Understood: assignments, `+=`, `export`, `unset`, all quotes, escapes,
continuation lines, comments, $X, ${X}, ${X:-w}, ${X-w}, ${X:+w}, ${X+w}, ${X:=w}, ${X=w}.
Everything else (if, loops, functions, commands, sourced files) is `beyond`: variables that it may set
are `unsure`, and a command substitution is the placeholder UNKNOWN in a value.

Rules: POSIX.1-2017, Shell Command Language, 2.2 (quoting), 2.6.2 (parameter expansion), 2.9.1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

UNKNOWN = "\ufffc"

BARE, DOUBLE, SINGLE = "bare", "double", "single"


class Char(NamedTuple):
    """One character of a value; `doc` is the index of its file, -1 where it stands in none."""

    char: str
    doc: int
    start: int
    end: int
    context: str


@dataclass
class Assignment:
    """One assignment: where its value is written, and how its last piece is quoted."""

    doc: int
    name: str
    start: int  # of the value
    end: int
    last: str = BARE  # context of the last piece
    pieces: int = 0


class Beyond(NamedTuple):
    """Something that is more than an assignment."""

    doc: int
    line: int
    text: str


@dataclass
class Values:
    """What the files say, read in their order."""

    chars: Dict[str, List[Char]] = field(default_factory=dict)
    assignments: List[Assignment] = field(default_factory=list)
    beyond: List[Beyond] = field(default_factory=list)
    unsure: Dict[str, Beyond] = field(default_factory=dict)  # "" stands for every name not in `settled`
    settled: Set[str] = field(default_factory=set)

    def get(self, name: str, default: str = "") -> str:
        """Value of a variable; UNKNOWN stands for what only running the file would tell."""
        chars = self.chars.get(name)
        return default if chars is None else "".join(c.char for c in chars)

    def doubt(self, name: str) -> Optional[Beyond]:
        """Why the value of a variable is not sure, or None."""
        return self.unsure.get(name) or (None if name in self.settled else self.unsure.get(""))


_ASSIGN = re.compile(r"(export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_NAMES = re.compile(r"(export|unset)((?:[ \t]+[A-Za-z_][A-Za-z0-9_]*)+)[ \t]*(?=[\n;#]|$)")
_BLANK = re.compile(r"(?:[ \t]|\\\n)*")
_PARAMETER = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-+=])|(?=\})))")
_SET_WITHIN = re.compile(r"(?<![\w$])([A-Za-z_][A-Za-z0-9_]*)\+?=")
_SOURCE = re.compile(r"(?:^|[;&|({\s])(?:\.|source|eval)\s")
_TOKEN = re.compile(
    r"""'[^']*'|"(?:\\.|[^"\\])*"|`[^`]*`|\$\([^)]*\)|\\.|\#[^\n]*|[A-Za-z_][\w]*|[\n;(){}]|&&|\|\||.""", re.DOTALL
)
_OPEN = frozenset(("if", "case", "do", "{", "("))
_CLOSE = frozenset(("fi", "esac", "done", "}", ")"))


def evaluate(texts: Sequence[str]) -> Values:
    """Read the files one after the other, as a shell that sources them would."""
    values = Values()
    for doc, text in enumerate(texts):
        _Reader(values, doc, text).read()
    return values


class _Reader:
    def __init__(self, values: Values, doc: int, text: str) -> None:
        self.values, self.doc, self.text = values, doc, text
        self.at = 0
        self.contexts: List[str] = []

    def read(self) -> None:
        while self.at < len(self.text):
            here = self.text[self.at]
            if here in " \t\n;":
                self.at += 1
            elif here == "#":
                self.at = self._line_end()
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif not (self._names() or self._assignments()):
                self._beyond(self.at)

    def _line_end(self) -> int:
        end = self.text.find("\n", self.at)
        return len(self.text) if end < 0 else end

    def _names(self) -> bool:
        match = _NAMES.match(self.text, self.at)
        if match is None:
            return False
        if match.group(1) == "unset":
            for name in match.group(2).split():
                self.values.chars.pop(name, None)
        self.at = match.end()
        return True

    def _assignments(self) -> bool:
        """Assignments up to the end of the command, or False where there is something else."""
        begin = self.at
        found: List[Tuple[Assignment, List[Char], bool]] = []
        while True:
            match = _ASSIGN.match(self.text, self.at)
            if match is None:
                break
            self.at = match.end()
            self.contexts = []
            start = self.at
            chars = self._word(BARE, "")
            last = self.contexts[-1] if self.contexts else BARE
            one = Assignment(self.doc, match.group(2), start, self.at, last, len(self.contexts))
            found.append((one, chars, bool(match.group(3))))
            blank = _BLANK.match(self.text, self.at)
            self.at = blank.end() if blank else self.at
        rest = self.text[self.at : self.at + 2]
        if not found or not (rest[:1] in ("", "\n", ";", "#") or rest in ("&&", "||")):
            self.at = begin
            return False
        for one, chars, more in found:
            self._assign(one, chars, more)
        if rest in ("&&", "||"):
            self._beyond(self.at)
        return True

    def _assign(self, one: Assignment, chars: List[Char], more: bool) -> None:
        values = self.values
        text = self.text[one.start : one.end]
        doubts = [values.doubt(a or b) for a, b, _how in _PARAMETER.findall(text)]
        doubts += [values.doubt(one.name)] if more else []
        doubts += [self._note(one.start)] if any(c.char == UNKNOWN for c in chars) else []
        doubt = next((d for d in doubts if d), None)
        if doubt is None:
            values.unsure.pop(one.name, None)
        else:
            values.unsure[one.name] = doubt
        values.settled.add(one.name)
        values.chars[one.name] = (values.chars.get(one.name, []) if more else []) + chars
        values.assignments.append(one)

    def _beyond(self, begin: int) -> None:
        """Skip one command, compound or not, and note what it may set."""
        depth = 0
        end = len(self.text)
        for match in _TOKEN.finditer(self.text, begin):
            word = match.group()
            if word in _OPEN:
                depth += 1
            elif word in _CLOSE:
                depth -= 1
            elif word == "<<" or (word == "<" and self.text.startswith("<<", match.start())):
                self._all_unsure(begin)
                break  # a here-document may hold anything
            elif word in ("\n", ";") and depth <= 0 and not self._continues(begin, match.start()):
                end = match.start()
                break
        chunk = self.text[begin:end]
        note = self._note(begin)
        self.values.beyond.append(note)
        for name in _SET_WITHIN.findall(chunk):
            self.values.unsure.setdefault(name, note)
        if _SOURCE.search(chunk):
            self._all_unsure(begin)
        self.at = max(end, begin + 1)

    def _all_unsure(self, begin: int) -> None:
        self.values.unsure[""] = self._note(begin)
        self.values.settled.clear()

    def _continues(self, begin: int, end: int) -> bool:
        """Whether a loop's or a function's body, or an operator's right side, is still to come."""
        chunk = self.text[begin:end].rstrip()
        if re.match(r"(?:for|while|until)\b", chunk) and not re.search(r"\bdone$", chunk):
            return True
        return bool(re.search(r"(?:&&|\|\||\||\(\s*\))$", chunk))

    def _note(self, begin: int) -> Beyond:
        end = self.text.find("\n", begin)
        line = self.text[begin : len(self.text) if end < 0 else end].strip()
        return Beyond(self.doc, self.text.count("\n", 0, begin) + 1, line)

    def _char(self, char: str, start: int, context: str) -> Char:
        return Char(char, self.doc, start, self.at, context)

    def _word(self, context: str, stop: str) -> List[Char]:
        """Characters up to the end of the word, or up to `stop` where that is given."""
        out: List[Char] = []
        text = self.text
        while self.at < len(text):
            here, start = text[self.at], self.at
            if here == stop or (not stop and here in " \t\n;&|<>()"):
                break
            self.at += 1
            if here == "'" and context != DOUBLE:
                out.extend(self._single())
            elif here == '"' and (context != DOUBLE or stop == "}"):
                self._piece(DOUBLE, stop)
                out.extend(self._word(DOUBLE, '"'))
                self.at += 1
            elif here == "\\":
                out.extend(self._escape(start, context))
            elif here == "$":
                out.extend(self._dollar(start, context))
            elif here == "`":
                out.append(self._substitution(start, self._past("`")))
            else:
                if context == BARE:
                    self._piece(BARE, stop)
                out.append(self._char(here, start, context))
        return out

    def _piece(self, context: str, stop: str) -> None:
        if not stop and (not self.contexts or self.contexts[-1] != context or context != BARE):
            self.contexts.append(context)

    def _single(self) -> List[Char]:
        self.contexts.append(SINGLE)
        end = self.text.find("'", self.at)
        end = len(self.text) if end < 0 else end
        out = [Char(self.text[i], self.doc, i, i + 1, SINGLE) for i in range(self.at, end)]
        self.at = end + 1
        return out

    def _escape(self, start: int, context: str) -> List[Char]:
        after = self.text[self.at : self.at + 1]
        if after == "\n":
            self.at += 1
            return []
        if context == DOUBLE and after not in ("$", "`", '"', "\\"):
            return [self._char("\\", start, context)]
        self.at += 1
        if context == BARE:
            self._piece(BARE, "")
        return [self._char(after, start, context)]

    def _dollar(self, start: int, context: str) -> List[Char]:
        match = _PARAMETER.match(self.text, start)
        if match is None:
            return self._other_dollar(start, context)
        self._piece(context, "}" if context == DOUBLE else "")
        name, how = match.group(1) or match.group(2), match.group(3)
        self.at = match.end()
        if match.group(1):
            return list(self.values.chars.get(name, []))
        word = self._word(context, "}") if how else []
        self.at += 1
        return self._parameter(name, how or "", word)

    def _parameter(self, name: str, how: str, word: List[Char]) -> List[Char]:
        value = self.values.chars.get(name)
        there = value is not None and (bool(value) or ":" not in how)
        if how.endswith("+"):
            return word if there else []
        if there or not how:
            return list(value or [])
        if how.endswith("="):
            self.values.chars[name] = word
        return word

    def _other_dollar(self, start: int, context: str) -> List[Char]:
        after = self.text[self.at : self.at + 1]
        if after == "(":
            return [self._substitution(start, self._balanced("(", ")"))]
        if after == "{":
            return [self._substitution(start, self._balanced("{", "}"))]
        if after in ("?", "$", "!", "#", "@", "*", "-") or after.isdigit():
            return [self._substitution(start, self.at + 1)]
        return [self._char("$", start, context)]

    def _substitution(self, start: int, end: int) -> Char:
        self.at = end
        return Char(UNKNOWN, -1, start, end, BARE)

    def _past(self, closing: str) -> int:
        end = self.text.find(closing, self.at)
        return len(self.text) if end < 0 else end + 1

    def _balanced(self, opening: str, closing: str) -> int:
        depth = 0
        for match in _TOKEN.finditer(self.text.replace("$(", " ("), self.at):
            if match.group() == opening:
                depth += 1
            elif match.group() == closing:
                depth -= 1
                if depth == 0:
                    return match.end()
        return len(self.text)


def span(chars: Sequence[Char]) -> Optional[Tuple[int, int, int]]:
    """(doc, start, end) of characters that stand together in one file in one kind of quotes, else None."""
    first = chars[0]
    for one, after in zip(chars, chars[1:]):
        if after.doc != one.doc or after.start != one.end or after.context != one.context:
            return None
    return None if first.doc < 0 else (first.doc, first.start, chars[-1].end)


def escape(text: str, context: str) -> str:
    """Text as it must be written in this kind of quotes."""
    if context == SINGLE:
        return text.replace("'", "'\\''")
    safe = re.sub(r'([\\"$`])', r"\\\1", text)
    if context == DOUBLE or re.fullmatch(r"[\w./:=,@%+-]*", text):
        return safe
    return '"%s"' % safe


def at_end(assignment: Assignment, text: str, added: str) -> Tuple[int, int, str]:
    """(start, end, text) of the edit that adds text at the end of an assignment's value."""
    start, end = assignment.start, assignment.end
    value = text[start:end]
    if assignment.pieces and assignment.last in (DOUBLE, SINGLE) and value[-1:] in ("'", '"'):
        return end - 1, end - 1, escape(added, assignment.last)
    if assignment.pieces == 1 and re.fullmatch(r"[\w./:=,@%+-]+", value):
        return start, end, '"%s"' % escape(value + added, DOUBLE)
    return end, end, '"%s"' % escape(added, DOUBLE)
