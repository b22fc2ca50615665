# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kernel command line as words, and what asking for some of them does to it. Pure.

A request has `args`, words that must stand there (a name given several times means exactly that
sequence, adjacent, in place of all former words of the name), and `absent`, names that must not, or
name=value for that word only. Everything else keeps its place, its order, its duplicates, its quotes.

A command line may be spread over several variables or files: a list of parts, each a list of words,
read one after the other. What stands after a lone `--` belongs to init and is left alone.
"""

from __future__ import annotations

import re
from typing import Dict, Iterable, List, NamedTuple, Sequence, Tuple

from .words import Word, group, joined, key, meaning, same

LOADER_WORDS = ("BOOT_IMAGE", "initrd")
"""Names that boot loaders put there themselves."""

_WORD = re.compile(r'(?:"[^"]*(?:"|$)|[^\s"])+')
_NAME = re.compile(r"[A-Za-z0-9_.$@/+:-]+")


def parse(text: str) -> List[Word]:
    """Words of a line as the kernel splits it: only double quotes protect blanks."""
    return [Word(raw, raw.replace('"', "")) for raw in _WORD.findall(text)]


def join(words: Iterable[Word]) -> str:
    """The line that has these words, as they are written."""
    return " ".join(word.raw for word in words)


def quoted(text: str) -> str:
    """How the kernel must be given this text as one word."""
    if not re.search(r"\s", text):
        return text
    name, sep, value = text.partition("=")
    if sep and not re.search(r"\s", name):
        return '%s="%s"' % (name, value)
    return '"%s"' % text


class Request(NamedTuple):
    """A checked request: `groups` in the order asked, `names` and `words` (their meanings) that must go."""

    groups: Dict[str, List[Word]]
    names: Tuple[str, ...]
    words: Tuple[Tuple[object, ...], ...]
    texts: Tuple[str, ...] = ()  # of `words`, as they were given


def request(args: Sequence[str], absent: Sequence[str]) -> Request:
    """The request in a form that is quick to compare; raises ValueError for what `check` names."""
    wrong = check(args, absent)
    if wrong:
        raise ValueError("; ".join(wrong))
    groups: Dict[str, List[Word]] = {}
    for text in args:
        word = parse(text)[0]
        groups.setdefault(word.group, []).append(word)
    names: List[str] = []
    words: List[Tuple[object, ...]] = []
    texts: List[str] = []
    for text in absent:
        word = parse(text)[0]
        if word.value is None:
            names.append(word.group)
        else:
            words.append(meaning(word))
            texts.append(text)
    return Request(groups, tuple(names), tuple(words), tuple(texts))


class Fault(NamedTuple):
    """What is wrong with one item of the option `option` ("args" or "absent"), and what to do."""

    option: str
    value: str
    message: str
    fix: str


def check(args: Sequence[str], absent: Sequence[str]) -> List[str]:
    """What is wrong with a request, one sentence each, naming option and value."""
    return ["%s: %r %s: %s" % fault for fault in faults(args, absent)]


def faults(args: Sequence[str], absent: Sequence[str]) -> List[Fault]:
    """What is wrong with a request."""
    wrong = [one for text in args for one in _faults("args", text)]
    wrong += [one for text in absent for one in _faults("absent", text)]
    if wrong:
        return wrong
    asked = [parse(text)[0] for text in args]
    for text in absent:
        clash = [one.raw for one in asked if _hits(one, parse(text)[0])]
        if clash:
            wrong.append(Fault("absent", text, "would remove %s, which is asked for" % clash[0], "keep one of them"))
    return wrong


def _faults(option: str, text: str) -> List[Fault]:
    words = parse(text)
    name = words[0].text.partition("=")[0] if words else ""
    wrong = ("", "")
    if not words:
        wrong = ("is empty", "give a kernel argument")
    elif re.search(r"[\x00-\x1f\x7f]", text):
        wrong = ("has a control character", "kernel arguments are one line of text")
    elif text.count('"') % 2:
        wrong = ("has an unpaired double quote", "quotes come in pairs")
    elif len(words) != 1 or words[0].raw != text:
        wrong = ("is more than one word", 'write one list item each, or quote the blank (name="a b")')
    elif not _NAME.fullmatch(name) or text in ("--", "---"):
        wrong = ("has no valid parameter name", "write name or name=value")
    elif name in LOADER_WORDS:
        wrong = ("is set by the boot loader itself", "remove it")
    return [Fault(option, text, *wrong)] if wrong[0] else []


def _hits(word: Word, gone: Word) -> bool:
    """Whether an item of `absent` removes the word."""
    return word.group == gone.group if gone.value is None else meaning(word) == meaning(gone)


class Change(NamedTuple):
    """Words put in place of `parts[part][at]`, or before it where `insert`."""

    part: int
    at: int
    words: Tuple[Word, ...]
    insert: bool


class _At(NamedTuple):
    part: int
    at: int
    flat: int
    word: Word


def _ours(parts: Sequence[Sequence[Word]]) -> List[_At]:
    """The kernel's own words: all before a lone `--`."""
    found: List[_At] = []
    for part, words in enumerate(parts):
        for index, word in enumerate(words):
            if word.text == "--":
                return found
            found.append(_At(part, index, len(found), word))
    return found


def _adjacent(places: Sequence[_At]) -> bool:
    return all(b.flat == a.flat + 1 for a, b in zip(places, places[1:]))


def changes(parts: Sequence[Sequence[Word]], wanted: Request, append_to: int = -1) -> List[Change]:
    """What must be changed in the parts, none where the request is met.

    Words of a new name go to the end of the part `append_to`, but before a lone `--`.
    """
    ours = _ours(parts)
    by_group: Dict[str, List[_At]] = {}
    done: List[Change] = []
    for at in ours:
        if at.word.group in wanted.names or (wanted.words and meaning(at.word) in wanted.words):
            done.append(Change(at.part, at.at, (), False))
        else:
            by_group.setdefault(at.word.group, []).append(at)
    added: List[Word] = []
    for name, words in wanted.groups.items():
        places = by_group.get(name, [])
        if not places:
            added.extend(words)
        elif not (same([at.word for at in places], words) and _adjacent(places)):
            there = joined([at.word for at in places], words)
            done.append(Change(places[0].part, places[0].at, tuple(there), False))
            done.extend(Change(at.part, at.at, (), False) for at in places[1:])
    if added:
        done.append(_append(parts, ours, added, append_to))
    return done


def _append(parts: Sequence[Sequence[Word]], ours: List[_At], added: List[Word], append_to: int) -> Change:
    part = append_to % len(parts)
    total = sum(len(words) for words in parts)
    if len(ours) < total:  # a lone -- stands at the flat index len(ours)
        left = len(ours)
        for where, words in enumerate(parts):
            if left < len(words):
                if where <= part:
                    return Change(where, left, tuple(added), True)
                break
            left -= len(words)
    return Change(part, len(parts[part]), tuple(added), True)


def carry_out(words: Sequence[Word], part: int, todo: Sequence[Change]) -> List[Word]:
    """The words of one part after the changes."""
    replaced = {c.at: c.words for c in todo if c.part == part and not c.insert}
    inserted = {c.at: c.words for c in todo if c.part == part and c.insert}
    out: List[Word] = []
    for index in range(len(words) + 1):
        out.extend(inserted.get(index, ()))
        if index < len(words):
            out.extend(replaced.get(index, (words[index],)))
    return out


def apply_parts(parts: Sequence[Sequence[Word]], wanted: Request, append_to: int = -1) -> List[List[Word]]:
    """All parts after the request is met."""
    todo = changes(parts, wanted, append_to)
    return [carry_out(words, part, todo) for part, words in enumerate(parts)]


def apply(words: Sequence[Word], args: Sequence[str], absent: Sequence[str] = ()) -> List[Word]:
    """The line after the request is met."""
    return apply_parts([words], request(args, absent))[0]


def satisfied(words: Sequence[Word], args: Sequence[str], absent: Sequence[str] = ()) -> bool:
    """Whether a configured line is as asked; the words of one name must be adjacent."""
    return not changes([words], request(args, absent))


def missing(words: Sequence[Word], args: Sequence[str], absent: Sequence[str] = ()) -> Tuple[List[str], List[str]]:
    """What a running kernel lacks: (asked words that do not hold, words that should be gone).

    Unlike in a configured line, words of one name need not be adjacent to be in force.
    """
    return lacking(words, request(args, absent))


def lacking(words: Sequence[Word], wanted: Request) -> Tuple[List[str], List[str]]:
    """As `missing`, for a request made before."""
    ours = [at.word for at in _ours([words])]
    gone = [w.raw for w in ours if w.group in wanted.names or (wanted.words and meaning(w) in wanted.words)]
    lack: List[str] = []
    for name, asked in wanted.groups.items():
        there = [word for word in ours if word.group == name]
        if not there or not same(there, asked):
            lack.extend(word.raw for word in asked)
    return lack, gone


def of_groups(words: Sequence[Word], names: Iterable[str]) -> List[Word]:
    """The words that belong to the named groups, in their order."""
    groups = {group(key(name)) for name in names}
    return [at.word for at in _ours([words]) if at.word.group in groups]


def unmanaged(words: Sequence[Word], wanted: Request) -> List[Word]:
    """The words that a request does not speak of."""
    return [
        word for word in words
        if word.group not in wanted.groups and word.group not in wanted.names and meaning(word) not in wanted.words
    ]
