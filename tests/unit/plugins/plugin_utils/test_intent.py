"""The loop's own variables: the check for misspelt names must know them, as it reads a host's variables after each step."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.nearmetal.rack.plugins.plugin_utils import intent

PLAYBOOKS = Path(__file__).resolve().parents[4] / "playbooks"
# Names that stay with the host: what is registered, set as a fact, or made a group.
KEPT = re.compile(r"^ +(?:register: *|key: *)?(nearmetal_\w+)(?::|$)", re.MULTILINE)


@pytest.mark.parametrize("path", sorted(PLAYBOOKS.rglob("*.yml")), ids=lambda path: path.name)
def test_names_that_a_playbook_keeps_are_known(path: Path) -> None:
    assert set(KEPT.findall(path.read_text(encoding="utf-8"))) <= intent.GENERAL_VARIABLES


def test_the_names_are_found() -> None:
    found = {name for path in PLAYBOOKS.rglob("*.yml") for name in KEPT.findall(path.read_text(encoding="utf-8"))}
    assert {"nearmetal_plan", "nearmetal_bmcs", "nearmetal_differs", "nearmetal_reboot_again"} <= found
