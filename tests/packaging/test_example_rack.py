"""The example inventory is a valid intent: `nearmetal validate` finds nothing wrong with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml

TOP = Path(__file__).resolve().parents[2]
EXAMPLE = TOP / "inventories" / "example_rack"


def validate(inventory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nearmetal", "validate", "-i", str(inventory)], cwd=TOP, check=False, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def test_example_is_valid() -> None:
    done = validate(EXAMPLE)
    assert done.returncode == 0, done.stdout


def test_every_variable_of_the_example_is_a_role_s() -> None:
    known = set()
    for path in (TOP / "roles").glob("*/meta/argument_specs.yml"):
        known |= set(yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]["main"]["options"])
    used = set()
    for path in (*EXAMPLE.glob("group_vars/*.yml"), *EXAMPLE.glob("host_vars/*.yml")):
        used |= {name for name in yaml.safe_load(path.read_text(encoding="utf-8")) if not name.startswith("ansible_")}
    assert len(used) >= 5
    assert used <= known


def test_a_misspelt_variable_in_it_is_found(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text("all: {hosts: {gpu-a01: {}}}\n", encoding="utf-8")
    good = tmp_path / "group_vars" / "all.yml"
    good.parent.mkdir()
    good.write_text("hugepages_pagse: []\n", encoding="utf-8")
    done = validate(tmp_path)
    assert done.returncode == 65, done.stdout
    assert "hugepages_pagse" in done.stdout
