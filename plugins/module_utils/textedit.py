# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changing some words of a text and nothing else."""

from __future__ import annotations

from typing import Callable, Dict, Iterator, List, NamedTuple, Sequence, Tuple

from .cmdline import Change
from .words import Word


class Edit(NamedTuple):
    """Text that takes the place of text[start:end]."""

    start: int
    end: int
    text: str


Span = Tuple[int, int]


def edited(text: str, edits: Sequence[Edit]) -> str:
    """The text after its edits, which must not overlap."""
    out: List[str] = []
    at = 0
    for edit in sorted(edits, key=lambda e: (e.start, e.end)):
        out.append(text[at : edit.start])
        out.append(edit.text)
        at = edit.end
    out.append(text[at:])
    return "".join(out)


def removals(text: str, spans: Sequence[Span], gone: Sequence[int]) -> Iterator[Tuple[Span, Sequence[int]]]:
    """Ranges to cut so that the words `gone` go with one of the blanks beside them: (range, words)."""
    left = sorted(gone)
    while left:
        run = [left.pop(0)]
        while left and left[0] == run[-1] + 1 and _blank(text, spans[run[-1]][1], spans[left[0]][0]):
            run.append(left.pop(0))
        first, last = run[0], run[-1]
        start, end = spans[first][0], spans[last][1]
        if first and _blank(text, spans[first - 1][1], start):
            start = spans[first - 1][1]
        elif last + 1 < len(spans) and _blank(text, end, spans[last + 1][0]):
            end = spans[last + 1][0]
        yield (start, end), run


def _blank(text: str, start: int, end: int) -> bool:
    between = text[start:end]
    return between.isspace() and "\n" not in between


def splice(
    text: str, spans: Sequence[Span], todo: Sequence[Change], render: Callable[[Word], str], end: int
) -> List[Edit]:
    """Edits that carry out the changes of one part whose words stand at `spans` of the text.

    `end` is where words are added that come after all others.
    """
    edits: List[Edit] = []
    gone: Dict[int, None] = {}
    for change in todo:
        new = " ".join(render(word) for word in change.words)
        if change.insert and change.at < len(spans):
            start = spans[change.at][0]
            edits.append(Edit(start, start, new + " "))
        elif change.insert:
            edits.append(Edit(end, end, (" " if end and not text[end - 1].isspace() else "") + new))
        elif change.words:
            edits.append(Edit(*spans[change.at], new))
        else:
            gone[change.at] = None
    edits.extend(Edit(start, stop, "") for (start, stop), _run in removals(text, spans, list(gone)))
    return edits
