"""Where nearmetal keeps things on the controller."""

from __future__ import annotations

import os
from pathlib import Path


def checkout() -> Path | None:
    """Top of the checkout that this package, or the working folder, is in; None for an installed wheel."""
    here = Path(__file__).resolve().parent.parent
    for top in (here, Path.cwd(), *Path.cwd().parents):
        if (top / "galaxy.yml").is_file() and (top / "nearmetal" / "cli.py").is_file():
            return top
    return None


def state_dir() -> Path:
    """Runs, journals, locks and the virtual rack (NEARMETAL_STATE_DIR)."""
    if named := os.environ.get("NEARMETAL_STATE_DIR"):
        return Path(named)
    if top := checkout():
        return top / ".nearmetal"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "nearmetal"


def cache_dir() -> Path:
    """What can be made again: images (NEARMETAL_CACHE_DIR)."""
    if named := os.environ.get("NEARMETAL_CACHE_DIR"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nearmetal"
