"""The network guard over Ansible, on a simulated host whose management path dies of the change."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

TOP = Path(__file__).resolve().parents[2]
PFS = [{"address": "0000:17:00.0"}, {"address": "0000:17:00.1"}]
SECONDS = 12


class Place:
    """One simulated host that shall have a VF LAG, and commands on it."""

    def __init__(self, folder: Path) -> None:
        self.inventory = folder / "hosts.yml"
        self.env = dict(
            os.environ, NEARMETAL_STATE_DIR=str(folder / "state"), NEARMETAL_SIM_DIR=str(folder / "sim"), PYTHONPATH=str(TOP),
            ANSIBLE_COLLECTIONS_PATH=str(TOP / ".cache" / "collections"),
        )  # fmt: skip
        variables = {
            "ansible_connection": "nearmetal.rack.simulated", "vf_lag_guard": SECONDS,
            "sriov_pfs": [{"pf": pf, "vfs": 2} for pf in PFS], "vf_lag_bonds": [{"name": "bond0", "pfs": PFS}],
        }  # fmt: skip
        self.inventory.write_text(yaml.safe_dump({"all": {"hosts": {"h": variables}}}))
        assert self.run("sim", "reset", "h")[0] == 0

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "nearmetal", *words]

    def run(self, *words: str) -> tuple[int, str]:
        done = subprocess.run(self.argv(*words), env=self.env, capture_output=True, text=True, check=False, timeout=300)
        return done.returncode, done.stdout + done.stderr

    def on(self, command: str, *words: str) -> tuple[int, str]:
        return self.run(command, "-i", str(self.inventory), *words)

    def truth(self) -> dict[str, Any]:
        shown: dict[str, Any] = json.loads(self.run("sim", "show", "h", "--json")[1])
        return {key: shown[key] for key in ("vfs", "bonds", "lag")}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_cut_off_restored_and_told(place: Place) -> None:
    before = place.truth()
    place.run("sim", "inject", "h", "mgmt-path-breaks")
    code, text = place.on("apply", "--yes")
    said = " ".join(text.split())
    assert code == 1, text
    assert "the change cut the host off" in said and "the network was restored at" in said
    assert place.truth() == before
    place.run("sim", "inject", "h", "clear")
    code, text = place.on("apply", "--yes")
    assert code == 0, text
    assert place.truth()["lag"]["type"] == "switchdev"
    assert place.on("plan")[0] == 0


def test_the_controller_dies(place: Place) -> None:
    """Killed while it tries to come back: the host does not wait for it."""
    before = place.truth()
    place.run("sim", "inject", "h", "mgmt-path-breaks")
    argv = place.argv("apply", "-i", str(place.inventory), "--yes")
    process = subprocess.Popen(argv, env=place.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    end = time.monotonic() + 120
    while place.truth()["lag"]["state"] != "active":
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    while place.truth() != before:
        assert time.monotonic() < end, place.truth()
        place.run("sim", "advance", "h", "60")
    place.run("sim", "inject", "h", "clear")
    assert place.on("plan")[0] == 2
    assert place.on("apply", "--yes")[0] == 0


PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - nearmetal.rack.network_guard: {state: armed, seconds: 60}
      register: armed
    - ansible.builtin.meta: reset_connection
    - nearmetal.rack.network_guard: {state: armed, seconds: 60}
      register: second
      failed_when: "'another guard is armed' not in second.msg"
    - nearmetal.rack.network_guard: {state: confirmed, token: "{{ armed.guard.token }}"}
    - nearmetal.rack.network_guard: {state: confirmed, token: "{{ armed.guard.token }}"}
      register: again
      failed_when: "'no guard with this token' not in again.msg"
    - nearmetal.rack.network_guard: {state: absent}
      register: nothing
      failed_when: nothing is changed
    - nearmetal.rack.network_guard: {state: armed, seconds: 60}
    - nearmetal.rack.network_guard: {state: restored}
      register: back
      failed_when: back is not changed
"""


def test_the_module(place: Place) -> None:
    play = place.inventory.with_name("play.yml")
    play.write_text(PLAY)
    argv = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(place.inventory), str(play)]
    done = subprocess.run(argv, env=place.env, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
