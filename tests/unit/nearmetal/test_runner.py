"""Settings that ansible gets from us."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearmetal.runner import environment


def test_a_connection_to_a_dead_host_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it a host that lost power holds the run for ever; the operator's own arguments stay, and come first."""
    monkeypatch.delenv("ANSIBLE_SSH_EXTRA_ARGS", raising=False)
    assert "-o ServerAliveInterval=" in environment(Path("j"))["ANSIBLE_SSH_EXTRA_ARGS"]
    monkeypatch.setenv("ANSIBLE_SSH_EXTRA_ARGS", "-o ServerAliveInterval=5")
    assert environment(Path("j"))["ANSIBLE_SSH_EXTRA_ARGS"].startswith("-o ServerAliveInterval=5 ")
