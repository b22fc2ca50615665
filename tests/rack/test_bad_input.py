"""What is wrong is said once, clearly, with the right exit code, before anything is touched."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import TOP, Rack


@pytest.fixture
def inventory(running_rack: Rack, tmp_path: Path) -> Any:
    """Make a copy of the rack's inventory with other variables; hosts: {host: variables to change}."""

    def make(intent: dict[str, Any], hosts: dict[str, dict[str, Any]] | None = None) -> str:
        folder = tmp_path / "inventory"
        shutil.copytree(running_rack.inventory, folder, dirs_exist_ok=True)
        (folder / "group_vars" / "all.yml").write_text(yaml.safe_dump(intent))
        for host, variables in (hosts or {}).items():
            (folder / "host_vars").mkdir(exist_ok=True)
            (folder / "host_vars" / f"{host}.yml").write_text(yaml.safe_dump(variables))
        return str(folder)

    return make


BAD = {
    "unknown node": ({"hugepages_pages": [{"size": "2M", "node": 7, "count": 1}]}, "hugepages_pages", "7"),
    "unknown size": ({"hugepages_pages": [{"size": "3M", "node": 0, "count": 1}]}, "hugepages_pages", "3M"),
    "beyond memory": ({"hugepages_pages": [{"size": "2M", "node": 0, "count": 4000}]}, "hugepages_pages", "4000"),
    "unknown cpu": ({"cpu_isolation_reserved_cpus": "0-1,99"}, "cpu_isolation_reserved_cpus", "99"),
    "too many cores": ({"cpu_isolation_reserved_cores_per_node": 2}, "cpu_isolation_reserved_cores_per_node", "2"),
    "two owners": (
        {"kernel_args_present": ["isolcpus=2-3"], "cpu_isolation_reserved_cores_per_node": 1},
        "kernel_args_present", "isolcpus",
    ),
    "misspelt": ({"iommu_modes": "passthrough"}, "iommu_modes", "iommu_mode"),
    "no such choice": ({"iommu_mode": "fast"}, "iommu_mode", "passthrough"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_intent(running_rack: Rack, inventory: Any, case: str) -> None:
    intent, variable, word = BAD[case]
    where = inventory(intent)
    before = running_rack.ssh("node1", "sha256sum /etc/default/grub /boot/grub/grub.cfg; ls -R /etc/systemd/system | sha256sum")
    for command in (("plan", "-i", where), ("apply", "-i", where, "--yes")):
        done = running_rack.run(*command)
        assert done.code == 65, done.text
        assert variable in done.text
        assert word in done.text
        assert "Fix:" in done.text
        assert "Traceback" not in done.text
    after = running_rack.ssh("node1", "sha256sum /etc/default/grub /boot/grub/grub.cfg; ls -R /etc/systemd/system | sha256sum")
    assert before == after


HOSTS = {
    "unreachable": ({"ansible_port": 1}, "unreachable", "refused"),
    "no python": ({"ansible_python_interpreter": "/opt/none/python3"}, "failed", "/opt/none/python3"),
    "sudo refused": ({"ansible_user": "root", "ansible_become": True, "ansible_become_user": "nosuchuser"}, "failed", "become"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTS)
def test_host_that_cannot_be_used(running_rack: Rack, inventory: Any, case: str) -> None:
    variables, status, word = HOSTS[case]
    where = inventory({"iommu_mode": "passthrough"}, {"node2": variables})
    done = running_rack.run("plan", "-i", where, "--json")
    assert done.code == 1, done.text
    plan = json.loads(done.out)
    assert plan["hosts"]["node2"]["status"] == status
    assert word in plan["hosts"]["node2"]["problems"][0]["message"]
    assert plan["hosts"]["node1"]["status"] in ("changes", "ok"), "the other host is looked at all the same"


def test_usage() -> None:
    rack = Rack("", "", dict(os.environ, PYTHONPATH=str(TOP)))
    assert rack.run("plan").code == 64
    assert rack.run("apply", "-i", "inventories/lab").code == 64, "no terminal to ask on"
    assert rack.run("nonsense").code == 64
    done = rack.run("plan", "-i", "/no/such/inventory")
    assert done.code == 65
    assert "/no/such/inventory does not exist" in done.err
