# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module returns for --diff."""

from __future__ import annotations

from typing import Dict, List, Mapping, Optional, Sequence

from .model import Step


def diffs(
    title: str, steps: Sequence[Step], have: Mapping[str, str], changed: Mapping[str, Optional[str]]
) -> List[Dict[str, str]]:
    """The settings in words, then each file. changed: path to new content, None for removed."""
    shown = []
    if steps:
        before = "".join("%s: %s\n" % (s.key, s.before) for s in steps)
        after = "".join("%s: %s\n" % (s.key, s.after) for s in steps)
        shown.append(_diff(title, before, after))
    return shown + [_diff(path, have.get(path, ""), text or "") for path, text in changed.items()]


def _diff(header: str, before: str, after: str) -> Dict[str, str]:
    return {"before_header": header, "after_header": header, "before": before, "after": after}
