"""The virtual rack for tests: brought up once, reset to factory state before each test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TOP = Path(__file__).resolve().parents[2]


@dataclass
class Done:
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """Both streams."""
        return self.out + self.err


@dataclass
class Rack:
    """The rack and how to work on it."""

    name: str
    inventory: str
    env: dict[str, str]

    def start(self, *words: str) -> subprocess.Popen[str]:
        """A nearmetal command in the background."""
        return subprocess.Popen(
            [sys.executable, "-m", "nearmetal", *words], cwd=TOP, env=self.env, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *words: str, timeout: float = 900) -> Done:
        """A nearmetal command to its end."""
        process = self.start(*words)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            pytest.fail(f"nearmetal {' '.join(words)} still ran after {timeout:.0f} s:\n{out[-4000:]}{err[-4000:]}{self.traces()}")
        return Done(process.returncode, out, err)

    def traces(self) -> str:
        """The ends of what tells why something hangs: journals, consoles, BMCs."""
        state = Path(self.env["NEARMETAL_STATE_DIR"])
        files = [*sorted(state.glob("runs/*/journal.jsonl"))[-1:], *state.glob("lab/*/*/serial.log"), *state.glob("lab/*/bmcs.log")]
        return "".join(f"\n--- {file}\n{file.read_text(errors='replace')[-3000:]}" for file in files)

    def answers(self, node: str, seconds: float) -> bool:
        """Whether a command on the node ends well in so many seconds."""
        process = self.start("lab", "ssh", "--name", self.name, node, "--", "true")
        try:
            return process.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return False

    def apply(self, *words: str) -> Done:
        """nearmetal apply on this rack."""
        return self.run("apply", "-i", self.inventory, "--yes", *words)

    def plan(self, *words: str) -> dict[str, Any]:
        """The plan document."""
        done = self.run("plan", "-i", self.inventory, "--json", *words)
        assert done.out, done.err
        return dict(json.loads(done.out))

    def ssh(self, node: str, command: str) -> str:
        """Output of a shell command on a node; it must succeed."""
        done = self.run("lab", "ssh", "--name", self.name, node, "--", command)
        assert done.code == 0, f"{command}: {done.text}"
        return done.out.strip()

    def pid(self, node: str) -> int | None:
        """The node's QEMU process; another one after each boot, and none between."""
        return next(n["pid"] for n in json.loads(self.lab("status", "--json").out)["nodes"] if n["name"] == node)

    def lab(self, *words: str) -> Done:
        """A lab command that must succeed."""
        done = self.run("lab", words[0], "--name", self.name, *words[1:])
        assert done.code == 0, done.text
        return done


@pytest.fixture(scope="session")
def running_rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rack]:
    """A rack of its own: it collides with no other on this machine, and is gone afterwards."""
    state = Path(os.environ.get("NEARMETAL_RACK_STATE") or tmp_path_factory.mktemp("rack"))
    rack = Rack("test", "", dict(os.environ, NEARMETAL_STATE_DIR=str(state), PYTHONPATH=str(TOP)))
    try:
        rack.lab("up")
        status = json.loads(rack.lab("status", "--json").out)
        folder = Path(status["inventory"])
        folder = folder if folder.is_dir() else folder.parent
        (folder / "group_vars").mkdir(exist_ok=True)
        intent = TOP / "inventories" / "lab" / "group_vars" / "all.yml"
        (folder / "group_vars" / "all.yml").write_text(intent.read_text())
        rack.inventory = str(folder)
        yield rack
    finally:
        rack.run("lab", "down", "--name", rack.name)


@pytest.fixture
def rack(running_rack: Rack) -> Rack:
    """The rack in factory state."""
    running_rack.lab("reset")
    return running_rack


@pytest.fixture
def node1_alone(rack: Rack) -> Iterator[None]:
    """For tests that only touch node1: node2 stands still meanwhile and takes no processor from it."""
    pid = rack.pid("node2")
    assert pid, "node2 is not up"
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
