"""The units as systemd reads them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric_boot import units


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_has_no_complaint(tmp_path: Path) -> None:
    paths = []
    for path, (text, _mode) in units.files(60).items():
        paths.append(tmp_path / Path(path).name)
        paths[-1].write_text(text)
    said = subprocess.run(["systemd-analyze", "verify", *map(str, paths)], capture_output=True, text=True, check=False)
    own = [line for line in (said.stderr + said.stdout).splitlines() if "nearmetal" in line or str(tmp_path) in line]
    assert own == [] and said.returncode == 0, said.stderr
