"""Make the collection importable as ansible_collections.nearmetal.rack, and find the samples."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

TOP = Path(__file__).resolve().parent.parent
LINK = TOP / ".cache" / "collections" / "ansible_collections" / "nearmetal" / "rack"
if not LINK.exists():
    LINK.parent.mkdir(parents=True, exist_ok=True)
    LINK.unlink(missing_ok=True)
    LINK.symlink_to(os.path.relpath(TOP, LINK.parent))
sys.path.insert(0, str(TOP / ".cache" / "collections"))
sys.path.insert(0, str(TOP / "tests" / "support"))

# How long one example takes says nothing on a busy machine.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def samples() -> Path:
    """Folder of captured data of real machines; the test is skipped where it is absent."""
    folder = Path(os.environ.get("NEARMETAL_SAMPLES") or TOP.parent / "shared" / "samples")
    if not folder.is_dir():
        pytest.skip(f"captured samples are not at {folder} (set NEARMETAL_SAMPLES)")
    return folder
