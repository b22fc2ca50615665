"""The command line over Ansible, on simulated hosts: plan, apply, reboot, verify, and a second apply."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

TOP = Path(__file__).resolve().parents[2]
INTENT = {
    "iommu_mode": "passthrough",
    "hugepages_pages": [{"size": "2M", "node": 0, "count": 64}, {"size": "2M", "node": 1, "count": 32}],
    "cpu_isolation_reserved_cores_per_node": 2,
    "kernel_args_present": ["mitigations=auto"],
}


class Rack:
    """Two simulated hosts, and commands on them."""

    def __init__(self, folder: Path) -> None:
        self.inventory = folder / "hosts.yml"
        self.env = dict(
            os.environ, NEARMETAL_STATE_DIR=str(folder / "state"), NEARMETAL_SIM_DIR=str(folder / "sim"), PYTHONPATH=str(TOP),
            ANSIBLE_COLLECTIONS_PATH=str(TOP / ".cache" / "collections"),
        )  # fmt: skip
        self.intend(INTENT)

    def intend(self, variables: dict[str, Any]) -> None:
        shared = {"ansible_connection": "nearmetal.rack.simulated", "ansible_python_interpreter": "/usr/bin/python3", **variables}
        self.inventory.write_text(yaml.safe_dump({"all": {"vars": shared, "hosts": {"s1": {}, "s2": {}}}}))

    def nearmetal(self, *words: str) -> tuple[int, str]:
        return self._run([sys.executable, "-m", "nearmetal", *words])

    def on(self, command: str, *words: str) -> tuple[int, str]:
        return self.nearmetal(command, "-i", str(self.inventory), *words)

    def ansible(self, *words: str) -> tuple[int, str]:
        return self._run([str(Path(sys.executable).with_name("ansible")), "-i", str(self.inventory), *words])

    def show(self, host: str) -> dict[str, Any]:
        code, text = self.nearmetal("sim", "show", host, "--json")
        assert code == 0, text
        return json.loads(text)  # type: ignore[no-any-return]

    def _run(self, argv: list[str]) -> tuple[int, str]:
        done = subprocess.run(argv, env=self.env, cwd=TOP, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def rack(tmp_path: Path) -> Rack:
    return Rack(tmp_path)


def test_apply_with_a_reboot_then_nothing_to_do(rack: Rack) -> None:
    code, text = rack.on("apply", "--yes")
    assert code == 0, text
    for host in ("s1", "s2"):
        shown = rack.show(host)
        assert shown["boots"] == 2
        assert "intel_iommu=on iommu=pt" in shown["cmdline"]
        assert shown["iommu"] == {"on": True, "passthrough": True}
        assert [shown["hugepages"]["0/2048"], shown["hugepages"]["1/2048"]] == [64, 32]
        assert shown["units"]["nearmetal-hugepages.service"]["active"] == "active"
    steps = rack.show("s1")["steps"]
    code, text = rack.on("apply", "--yes")
    assert code == 0, text
    assert "0 modules run" in text
    assert rack.show("s1")["steps"] == steps


def test_a_host_that_does_not_reboot_is_a_failure_and_is_not_asked_again(rack: Rack) -> None:
    rack.intend({"iommu_mode": "passthrough", "nearmetal_reboot_timeout": 4})
    assert rack.nearmetal("sim", "reset", "s1", "s2")[0] == 0
    assert rack.nearmetal("sim", "inject", "s2", "no-reboot")[0] == 0
    code, text = rack.on("apply", "--yes")
    assert code == 1, text
    assert "did not go down" in text
    assert [rack.show(host)["boots"] for host in ("s1", "s2")] == [2, 1]


def test_nothing_else_runs_on_a_simulated_host(rack: Rack, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    touch = f"touch {outside}"
    for module, args in (("command", touch), ("raw", touch), ("copy", f"content=x dest={outside}"), ("setup", "")):
        code, text = rack.ansible("s1", "-m", module, "-a", args)
        assert code != 0, text
        assert "refused" in text or "exited with result 127" in text
        assert not outside.exists()


def test_a_module_that_loses_its_host_is_unreachable(rack: Rack) -> None:
    rack.intend({"hugepages_pages": INTENT["hugepages_pages"]})
    assert rack.nearmetal("sim", "reset", "s1", "s2")[0] == 0
    assert rack.nearmetal("sim", "inject", "s1", "dies-at-step=2")[0] == 0
    code, text = rack.on("apply", "--yes")
    assert code == 1, text
    assert "lost power" in text
    code, text = rack.on("apply", "--yes")
    assert code == 0, text
    assert rack.show("s1")["hugepages"]["0/2048"] == 64


def test_the_command_line_of_the_simulator(rack: Rack) -> None:
    assert rack.nearmetal("sim", "reset", "s1", "--variant", "owner=netplan", "--variant", "vfs=4")[0] == 0
    assert rack.show("s1")["variant"]["owner"] == "netplan"
    assert {"pfs", "vfs", "bonds", "lag"} <= set(rack.show("s1"))
    assert set(rack.show("s1")["lag"]) >= {"state", "type", "members"}
    code, text = rack.nearmetal("sim", "faults")
    assert code == 0 and "lag-inactive" in text
    code, text = rack.nearmetal("sim", "rules", "--json")
    assert code == 0 and all(rule["source"] for rule in json.loads(text))
    assert rack.nearmetal("sim", "inject", "s1", "no-such")[0] == 64
    assert rack.nearmetal("sim", "show", "no-such")[0] == 64
    assert rack.nearmetal("sim", "reset", "s1", "--variant", "colour=red")[0] == 64
    boots = rack.show("s1")["boots"]
    assert rack.nearmetal("sim", "reboot", "s1")[0] == 0
    assert rack.nearmetal("sim", "power-cycle", "s1")[0] == 0
    assert rack.show("s1")["boots"] == boots + 2
    assert rack.nearmetal("sim", "reset", "s1")[0] == 0
    assert rack.show("s1")["variant"]["owner"] == "netplan"


def test_the_whole_fabric_of_the_simulated_rack(rack: Rack) -> None:
    """Two hosts of the inventory that is shipped: firmware, reboot, VFs, VF LAG, bridge or Open vSwitch; then nothing to do."""
    names = ("sim-a01", "sim-b01")
    rack.inventory = TOP / "inventories" / "simulated_rack"
    for name in names:
        assert rack.nearmetal("sim", "reset", name)[0] == 0
    code, text = rack.on("apply", "--yes", "-l", ",".join(names))
    assert code == 0, text
    for name, mode in zip(names, ("802.3ad", "active-backup"), strict=True):
        shown = rack.show(name)
        assert shown["lag"]["state"] == "active" and shown["lag"]["type"] == "switchdev"
        assert [bond["mode"] for bond in shown["bonds"]] == [mode]
        assert sorted({vf["driver"] for vf in shown["vfs"]}) == ["mlx5_core", "vfio-pci"]
        assert len(shown["vfs"]) == 20
        assert shown["boots"] == 2
    code, text = rack.on("apply", "--yes", "-l", ",".join(names))
    assert code == 0 and "0 modules run" in text, text
    rack.nearmetal("sim", "inject", names[0], "vfs-removed")
    assert rack.on("drift", "-l", ",".join(names))[0] == 2
    code, text = rack.on("apply", "--yes", "-l", ",".join(names))
    assert code == 0, text
    assert rack.show(names[0])["lag"]["type"] == "switchdev" and rack.show(names[0])["boots"] == 2
