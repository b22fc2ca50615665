"""The module cpu_isolation on a small running system, and on a tree."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils import irq, isolation, slices
from ansible_collections.nearmetal.rack.plugins.module_utils.host import FileHost, HostError
from ansible_collections.nearmetal.rack.plugins.module_utils.model import IntentError
from ansible_collections.nearmetal.rack.plugins.modules.cpu_isolation import converge
from fake_system import System, tree

PRESENT = {"state": "present", "reserved": "0,4", "mode": "cpusets", "root": "/"}
ABSENT = {**PRESENT, "state": "absent", "reserved": None}


def test_converges_and_comes_to_rest() -> None:
    system = System(tree())
    first = converge(system, PRESENT, check=False)
    assert (first["changed"], first["reserved"], first["isolated"]) == (True, "0,4", "1-3,5-7")
    assert [s["key"] for s in first["steps"]] == ["slices", "irq-affinity", "irqbalance"]
    assert system.get("/sys/fs/cgroup/system.slice/cpuset.cpus.effective") == "0,4"
    assert system.get("/proc/irq/24/effective_affinity_list") == "0"
    assert "systemctl try-restart irqbalance.service" in system.log
    system.log.clear()
    second = converge(system, PRESENT, check=False)
    assert (second["changed"], second["steps"], second["diff"], system.log) == (False, [], [], [])


def test_check_mode_says_the_same_and_does_nothing() -> None:
    system = System(tree())
    before = copy.deepcopy(system.files)
    checked = converge(system, PRESENT, check=True)
    assert (system.files, system.log) == (before, [])
    done = converge(system, PRESENT, check=False)
    assert {k: checked[k] for k in ("changed", "steps", "diff")} == {k: done[k] for k in ("changed", "steps", "diff")}
    assert checked["diff"][0]["before"].startswith("slices: init.scope all CPUs")
    assert checked["diff"][1]["before_header"] == slices.path("init.scope")


def test_undo_leaves_nothing_behind() -> None:
    system = System(tree())
    paths = set(system.files)
    converge(system, PRESENT, check=False)
    undone = converge(system, ABSENT, check=False)
    assert undone["changed"]
    assert set(system.files) - {irq.UNMOVABLE} == paths
    assert system.get("/proc/irq/24/smp_affinity_list") == "0-7"
    assert not converge(system, ABSENT, check=False)["changed"]


def test_undo_where_another_unit_keeps_cpusets_on() -> None:
    system = System(tree())
    converge(system, PRESENT, check=False)
    system.controller_stays = True
    converge(system, ABSENT, check=False)
    assert system.get("/sys/fs/cgroup/system.slice/cpuset.cpus.effective") == "0-7"


def test_other_reserved_cpus_later() -> None:
    system = System(tree())
    converge(system, PRESENT, check=False)
    again = converge(system, {**PRESENT, "reserved": "0,2,4,6"}, check=False)
    assert again["changed"]
    assert system.get("/sys/fs/cgroup/user.slice/cpuset.cpus") == "0,2,4,6"


def test_managed_interrupts_are_reported_and_not_failed() -> None:
    system = System(tree(), managed=[25])
    assert converge(system, PRESENT, check=False)["unmovable"] == [25]
    assert not converge(system, PRESENT, check=False)["changed"]


def test_one_stray_interrupt_restarts_only_the_steering() -> None:
    system = System(tree())
    converge(system, PRESENT, check=False)
    system.files["/proc/irq/26/smp_affinity_list"] = "0-7\n"
    system.files["/proc/irq/26/effective_affinity_list"] = "3\n"
    system.log.clear()
    assert [s["key"] for s in converge(system, PRESENT, check=False)["steps"]] == ["irq-affinity"]
    assert system.log == [f"systemctl restart {irq.SERVICE}"]


@pytest.mark.parametrize(
    ("ignored", "fragment"),
    [
        ("systemctl daemon-reload", "slices is still 'init.scope all CPUs"),
        (f"systemctl restart {irq.SERVICE}", "irq-affinity is still"),
    ],
)
def test_what_does_not_take_effect_is_an_error(monkeypatch: pytest.MonkeyPatch, ignored: str, fragment: str) -> None:
    monkeypatch.setattr(isolation, "PATIENCE_S", 0.0)
    system = System(tree())
    system.ignore = {ignored}
    with pytest.raises(HostError) as caught:
        converge(system, PRESENT, check=False)
    assert fragment in str(caught.value)


@pytest.mark.parametrize(
    ("params", "fragment"),
    [
        ({"reserved": "0"}, "torn apart"),
        ({"reserved": " "}, "no CPU is left to the host"),
        ({"reserved": "0,4,9"}, "offline or not there"),
    ],
)
def test_bad_request(params: dict[str, Any], fragment: str) -> None:
    with pytest.raises(IntentError, match=fragment):
        converge(System(tree()), {**PRESENT, **params}, check=False)


def test_old_control_groups_are_refused_before_anything_is_touched() -> None:
    files = tree()
    del files["/sys/fs/cgroup/cgroup.controllers"]
    files["/sys/fs/cgroup/cpuset/cpuset.cpus"] = "0-7\n"
    system = System(files)
    with pytest.raises(IntentError, match="unified control group"):
        converge(system, PRESENT, check=False)
    assert system.log == []


def test_tree_gets_the_files_only(tmp_path: Path) -> None:
    for path, text in tree().items():
        file = tmp_path / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    host = FileHost(str(tmp_path))
    assert converge(host, PRESENT, check=False)["changed"]
    assert "AllowedCPUs=0,4\n" in (tmp_path / "etc/systemd/system/user.slice.d/50-nearmetal.conf").read_text()
    assert (tmp_path / irq.WANTED.lstrip("/")).exists()
    assert (tmp_path / "proc/irq/24/smp_affinity_list").read_text() == "0-7\n"
    assert not converge(host, PRESENT, check=False)["changed"]
    assert converge(host, ABSENT, check=False)["changed"]
    assert not (tmp_path / irq.SCRIPT.lstrip("/")).exists()
