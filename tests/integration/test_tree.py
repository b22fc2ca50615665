"""The command line over Ansible, on a tree: no virtual machine, so it runs in seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import rack as made_up
import yaml

TOP = Path(__file__).resolve().parents[2]


class Place:
    """An inventory of one tree, and commands on it."""

    def __init__(self, folder: Path, variables: dict[str, Any]) -> None:
        self.tree = made_up.server().write(folder / "tree")
        self.inventory = folder / "hosts.yml"
        self.env = dict(
            os.environ, NEARMETAL_STATE_DIR=str(folder / "state"), PYTHONPATH=str(TOP),
            ANSIBLE_COLLECTIONS_PATH=str(TOP / ".cache" / "collections"),
        )  # fmt: skip
        self.intend(variables)

    def intend(self, variables: dict[str, Any]) -> None:
        host = {"ansible_connection": "local", "nearmetal_root": str(self.tree), "ansible_python_interpreter": sys.executable}
        self.inventory.write_text(yaml.safe_dump({"all": {"hosts": {"h": {**host, **variables}}}}))

    def run(self, *words: str) -> tuple[int, str]:
        argv = [sys.executable, "-m", "nearmetal", words[0], "-i", str(self.inventory), *words[1:]]
        return self._run(argv)

    def play(self, playbook: str, *words: str) -> tuple[int, str]:
        program = str(Path(sys.executable).with_name("ansible-playbook"))
        return self._run([program, "-i", str(self.inventory), f"nearmetal.rack.{playbook}", *words])

    def _run(self, argv: list[str]) -> tuple[int, str]:
        done = subprocess.run(argv, env=self.env, cwd=TOP, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def files(self) -> dict[str, str]:
        return {
            str(p.relative_to(self.tree)): p.read_text(errors="replace")
            for p in self.tree.rglob("*") if p.is_file() and "var/lib/nearmetal" not in str(p)
        }  # fmt: skip


PAGES = [{"size": "2M", "node": 0, "count": 64}]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, {"hugepages_pages": PAGES})


def test_apply_without_a_reboot_then_nothing_to_do(place: Place) -> None:
    code, text = place.run("plan", "--json")
    assert code == 2, text
    plan = json.loads(text[: text.rindex("}") + 1])
    assert plan["summary"]["reboots"] == 0
    steps = {s["key"] for s in plan["steps"]}
    before = place.files()

    code, text = place.play("hugepages", "--check", "--diff")
    assert code == 0, text
    assert "changed=1" in text
    assert place.files() == before, "check mode wrote"

    code, text = place.run("apply", "--yes")
    pool = place.tree / "sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"
    pool.write_text("64\n")  # what a running kernel would say after its next boot
    assert "persist" in steps
    assert (place.tree / "etc/systemd/system/nearmetal-hugepages.service").is_file(), text

    code, text = place.run("apply", "--yes")
    assert code == 0, text
    assert "0 modules run" in text
    code, text = place.play("hugepages")
    assert code == 0, text
    assert "changed=0" in text


def test_a_plan_that_is_out_of_date_is_refused(place: Place, tmp_path: Path) -> None:
    saved = tmp_path / "plan.json"
    code, text = place.run("plan", "--out", str(saved))
    assert code == 2, text
    place.intend({"hugepages_pages": [{"size": "2M", "node": 1, "count": 32}]})
    before = place.files()
    code, text = place.run("apply", str(saved), "--yes")
    assert code == 1, text
    assert "make a new plan" in text
    assert place.files() == before


def test_misspelt_variable(place: Place) -> None:
    place.intend({"hugepages_page": PAGES})
    code, text = place.run("validate")
    assert code == 65, text
    assert "hugepages_pages" in text
