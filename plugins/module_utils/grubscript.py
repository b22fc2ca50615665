# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GRUB's script language, as far as it decides what a kernel is given: words, quotes, menu entries.

Rules: GRUB manual, "Writing full configuration files directly" (quoting, variable expansion), and
grub-core/lib/cmdline.c (an argument that has blanks is put in double quotes for the kernel).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from . import cmdline
from .words import Word

_PIECES = r"""(?:'[^']*'?|"(?:\\.|[^"\\])*"?|\\.|\$\{[^}\s]*\}|[^\s'"\\;&|<>])+"""
_WORD = re.compile(_PIECES, re.DOTALL)
_TOKEN = re.compile(r"(?P<word>(?!#)%s)|(?P<end>[;\n&|<>])|(?P<comment>#[^\n]*)|\\\n|[^\S\n]+|." % _PIECES, re.DOTALL)
_QUOTES = re.compile(r"""'([^']*)'?|"((?:\\.|[^"\\])*)"?|\\(.)|([^'"\\]+)""", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
_PLAIN = re.compile(r"""(?:[^\s'"\\;&|<>{}$#]|(?<!^)#|"[^"\\$]*")*""")
_END = re.compile(r"[;&|<>\n]")


class Token(NamedTuple):
    """A word as written, and where: text[start:end]."""

    raw: str
    start: int
    end: int

    @property
    def word(self) -> Word:
        """The argument that GRUB makes of it, variables left as they are."""
        return Word(for_kernel(self.raw), unquote(self.raw))


def unquote(raw: str) -> str:
    """The text of a word without GRUB's quotes; variables stay as written."""
    out: List[str] = []
    for single, double, escaped, bare in _QUOTES.findall(raw):
        out.append(single or re.sub(r'\\(["$\\])', r"\1", double) or escaped or bare)
    return "".join(out)


def for_kernel(raw: str) -> str:
    """The word for human eyes and for the kernel: double quotes stay, GRUB's own escapes do not."""
    return raw if "'" not in raw and "\\" not in raw else cmdline.quoted(unquote(raw))


def quote(word: Word) -> str:
    """A word in the form that GRUB passes on unharmed, kept as given where that is already so."""
    if _PLAIN.fullmatch(word.raw):
        return word.raw
    safe = re.sub(r'([\\"$])', r"\\\1", word.text)
    name, sep, value = safe.partition("=")
    if sep and _PLAIN.fullmatch(name):
        return '%s="%s"' % (name, value)
    return '"%s"' % safe


def tokens(text: str) -> List[Token]:
    """Words of one command. What follows an unquoted `;`, `&`, `|`, `<`, `>` GRUB does not pass on."""
    found: List[Token] = []
    place = 0
    for match in _WORD.finditer(text):
        if _END.search(text, place, match.start()):
            break
        found.append(Token(match.group(), match.start(), match.end()))
        place = match.end()
    return found


def expand(words: List[Token], env: Mapping[str, str]) -> List[Word]:
    """Arguments with known variables replaced; a variable that no file sets is kept as written.

    An unquoted variable's value is split at blanks, as GRUB does.
    """
    out: List[Word] = []
    for token in words:
        match = _VARIABLE.fullmatch(token.raw)
        if match and (match.group(1) or match.group(2)) in env:
            out.extend(cmdline.parse(env[match.group(1) or match.group(2)]))
        else:
            out.append(token.word)
    return out


def variable(raw: str) -> str:
    """Name of the variable where the whole word is one, else ""."""
    match = _VARIABLE.fullmatch(raw)
    return (match.group(1) or match.group(2)) if match else ""


@dataclass
class Entry:
    """A menu entry or submenu of grub.cfg."""

    title: str
    id: str
    section: str  # the script that wrote it: "10_linux", "40_custom", ... or ""
    submenu: bool = False
    linux: Optional[List[Token]] = None  # arguments only, without command and kernel path
    linux_end: int = 0  # where arguments are added if there are none yet
    commands: List[str] = field(default_factory=list)
    entries: List[Entry] = field(default_factory=list)

    @property
    def recovery(self) -> bool:
        """Whether this is an entry for repairs, which keeps its own arguments."""
        return bool(re.search("recovery|rescue", self.title + " " + self.id, re.IGNORECASE))


@dataclass
class Menu:
    """What a grub.cfg offers."""

    entries: List[Entry]
    default: str  # value of `set default=` outside of one-shot boots: "0", "${saved_entry}", "a>b"
    blscfg: bool
    stub: bool  # only points to another grub.cfg
    signed: bool  # check_signatures=enforce
    fallbacks: Dict[str, str]  # variables set in grub.cfg, last one wins: kernelopts, ...

    def walk(self) -> Iterator[Entry]:
        """All entries that boot something, those of submenus too."""
        todo = self.entries[::-1]
        while todo:
            entry = todo.pop()
            if entry.submenu:
                todo.extend(entry.entries[::-1])
            else:
                yield entry

    def find(self, wanted: str) -> Optional[Entry]:
        """The entry that `default` means: index, title or id, levels separated by `>`.

        GRUB takes the first entry where nothing fits, and of a submenu its first.
        """
        here = self.entries
        entry: Optional[Entry] = None
        for part in re.split(r"(?<!>)>(?!>)", wanted or "0"):
            if not here:
                break
            entry = _pick(here, part.strip().replace(">>", ">")) or here[0]
            here = entry.entries if entry.submenu else []
        while entry is not None and entry.submenu:
            entry = entry.entries[0] if entry.entries else None
        return entry


def _pick(entries: List[Entry], wanted: str) -> Optional[Entry]:
    if wanted.isdigit():
        return entries[int(wanted)] if int(wanted) < len(entries) else None
    for entry in entries:
        if wanted in (entry.id, entry.title):
            return entry
    return None


_SET = re.compile(r"""^[ \t]*set[ \t]+([A-Za-z_][A-Za-z0-9_]*)=("[^"\n]*"|'[^'\n]*'|[^\s;]*)""", re.MULTILINE)
_SECTION = re.compile(r"^### BEGIN \S*/([^/\s]+) ###", re.MULTILINE)
_MENU = re.compile(r"^[ \t]*(?:menuentry|submenu)\b", re.MULTILINE)
_CONDITIONAL = frozenset(("next_entry", "prev_saved_entry", "boot_once", "vt_handoff", "root", "prefix"))
_LINUX = frozenset(("linux", "linuxefi", "linux16"))


def menu(text: str) -> Menu:
    """Read a grub.cfg."""
    found: Dict[str, str] = {}
    default = ""
    for name, value in _SET.findall(text):
        plain = value.strip("\"'")
        if name == "default":
            if "next_entry" not in plain:
                default = plain
        elif name not in _CONDITIONAL and "$" not in plain:
            found[name] = plain
    entries = _entries(text)
    return Menu(
        entries=entries,
        default=default,
        blscfg=bool(re.search(r"^[ \t]*blscfg\b", text, re.MULTILINE)),
        stub=not entries and bool(re.search(r"^[ \t]*configfile\b", text, re.MULTILINE)),
        signed=found.get("check_signatures") == "enforce" or "check_signatures=enforce" in text,
        fallbacks=found,
    )


def _entries(text: str) -> List[Entry]:
    first = _MENU.search(text)
    if first is None:
        return []
    sections = [(m.start(), m.group(1)) for m in _SECTION.finditer(text)]
    top: List[Entry] = []
    stack: List[Optional[Entry]] = []  # None: a brace that is no menu entry (a function)
    for words in _commands(text, first.start()):
        head = words[0].raw
        if head == "}":
            if stack:
                stack.pop()
        elif words[-1].raw == "{":
            entry = _entry(words, sections) if head in ("menuentry", "submenu") else None
            if entry is not None:
                outer = next((e for e in reversed(stack) if e is not None), None)
                (top if outer is None else outer.entries).append(entry)
            stack.append(entry)
        elif stack and stack[-1] is not None:
            stack[-1].commands.append(head)
            if head in _LINUX and len(words) > 1:
                stack[-1].linux_end = words[1].end
                stack[-1].linux = words[2:]
    return top


def _entry(words: List[Token], sections: List[Tuple[int, str]]) -> Entry:
    ident = ""
    for flag, value in zip(words, words[1:]):
        if flag.raw in ("--id", "$menuentry_id_option", "${menuentry_id_option}"):
            ident = unquote(value.raw)
    section = ""
    for start, name in sections:
        if start < words[0].start:
            section = name
    title = unquote(words[1].raw) if len(words) > 1 else ""
    return Entry(title=title, id=ident, section=section, submenu=words[0].raw == "submenu")


def _commands(text: str, start: int) -> Iterator[List[Token]]:
    """Commands from `start` on; a brace ends one, and stands as a command of its own or at its end."""
    words: List[Token] = []
    for match in _TOKEN.finditer(text, start):
        if match.lastgroup == "word":
            words.append(Token(match.group(), match.start(), match.end()))
            if words[-1].raw == "{" or (words[-1].raw == "}" and len(words) == 1):
                yield words
                words = []
        elif match.lastgroup == "end" and words:
            yield words
            words = []
    if words:
        yield words
