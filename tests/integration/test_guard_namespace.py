"""The guard on real devices: a network namespace whose management path is broken on purpose."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
HIDDEN = ("/var/lib", "/run/lock", "/sys/bus/pci/devices", "/etc/systemd", "/etc/netplan", "/etc/NetworkManager")
"""Folders in which the test must leave nothing, or see nothing of this machine."""


@pytest.fixture
def namespaces() -> Iterator[tuple[str, str]]:
    names = (f"nearmetal-{os.getpid()}-host", f"nearmetal-{os.getpid()}-peer")
    if os.geteuid() != 0 or subprocess.run(["ip", "netns", "add", names[0]], capture_output=True, check=False).returncode:
        pytest.skip("network namespaces need root")
    try:
        subprocess.run(["ip", "netns", "add", names[1]], check=True)
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def test_a_broken_management_path_comes_back(namespaces: tuple[str, str], tmp_path: Path) -> None:
    hide = " && ".join(f"if [ -d {path} ]; then mount -t tmpfs none {path}; fi" for path in HIDDEN)
    env = dict(os.environ, PYTHONPATH=str(TOP / ".cache" / "collections"))
    inner = [sys.executable, str(Path(__file__).with_name("guard_in_namespace.py")), namespaces[1], str(tmp_path)]
    said = subprocess.run(
        ["ip", "netns", "exec", namespaces[0], "unshare", "--mount", "sh", "-c", hide + ' && exec "$@"', "sh", *inner],
        capture_output=True, text=True, check=False, env=env, timeout=120,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    found = json.loads(said.stdout.strip().splitlines()[-1])
    assert found.pop("kind") in ("bond", "bridge")  # a bond where this machine's kernel has them
    assert found == {
        "before": True, "broken": True, "restored": True, "route": True, "confirmed": True,
        "noted": "nobody confirmed the change in time",
    }, said.stderr  # fmt: skip
