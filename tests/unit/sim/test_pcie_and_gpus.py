"""The roles iommu and gpu_passthrough over the simulator: decided, done by their modules, rebooted, read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils import bootloader, loop
from ansible_collections.nearmetal.rack.plugins.module_utils.capabilities import (
    gpu_passthrough,
    iommu,
    kernel_args,
    nic_firmware,
)
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.document import observe
from ansible_collections.nearmetal.rack.plugins.modules import gpu_passthrough as gpu_module
from ansible_collections.nearmetal.rack.plugins.modules import pcie_settings as pcie_module
from simulated import Sim

pytestmark = pytest.mark.simulated

CAPABILITIES = {
    "iommu": iommu,
    "kernel_args": kernel_args,
    "gpu_passthrough": gpu_passthrough,
    "nic_firmware": nic_firmware,
}
NIC, NIC_PORT, GPU, GPU_PORT, ROOT = "0000:17:00.0", "0000:16:00.0", "0000:18:00.0", "0000:16:01.0", "0000:14:01.0"
NONE = {"acs": None, "max_read_request": None, "relaxed_ordering": None}


def iommu_options(**given: Any) -> dict[str, Any]:
    return {
        "mode": "passthrough",
        "strict": None,
        "ats": None,
        "acs_paths": [{"gpu": GPU, "nic": NIC}],
        "acs": "vm",
        "acs_method": "auto",
        "max_read_request": None,
        "relaxed_ordering": None,
        "pcie_devices": [],
        **given,
    }


def gpu_options(*devices: str) -> dict[str, Any]:
    return {"devices": list(devices), "driver": "vfio-pci", "keep_off": ["nouveau"], "accept_console": False}


def apply(sim: Sim, intent: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Round after round until nothing is left: (the last plan, reboots that were made)."""
    reboots = 0
    for _round in range(5):
        plan = loop.decide(intent, observe(sim.host), CAPABILITIES)
        if plan["status"] != "changes":
            return plan, reboots
        for call in plan["calls"].values():
            args = call["args"]
            if call["module"].endswith("kernel_cmdline"):
                bootloader.ensure(sim.host, args["args"], args["absent"])
            elif call["module"].endswith("pcie_settings"):
                functions = [{**NONE, **one} for one in args["functions"]]
                pcie_module.converge(sim.host, {**args, "functions": functions}, False)
            else:
                gpu_module.converge(sim.host, args, False)
        if plan["reboot"]:
            reboots += 1
            sim.restart()
    return plan, reboots


@pytest.mark.parametrize("model", ["h100", "l40s"])
def test_one_reboot_and_it_stays(tmp_path: Path, model: str) -> None:
    sim = Sim(tmp_path, gpu=model)
    paths = [{"gpu": GPU, "nic": NIC}, {"gpu": "0000:98:00.0", "nic": "0000:97:00.0"}]
    intent = {
        "iommu": iommu_options(acs_paths=paths, max_read_request=4096, relaxed_ordering=False),
        "gpu_passthrough": gpu_options(GPU),
    }
    plan, reboots = apply(sim, intent)
    assert (plan["status"], plan["problems"], reboots) == ("ok", [], 1)
    for _boot in range(2):
        state = observe(sim.host)
        assert state["pcie"][NIC_PORT]["acs"] == {"able": "1011111", "enabled": "1011101"}
        assert (state["pcie"][NIC]["max_read_request"], state["pcie"][NIC]["relaxed_ordering"]) == (4096, False)
        drivers = {f["address"]: f["driver"] for f in state["pci"]}
        assert {d for a, d in drivers.items() if a.startswith(GPU[:-1])} == {"vfio-pci"}
        assert loop.decide(intent, state, CAPABILITIES)["status"] == "ok"
        sim.restart()


def test_bare_metal_by_the_kernel(tmp_path: Path) -> None:
    sim = Sim(tmp_path)
    plan, reboots = apply(sim, {"iommu": iommu_options(acs="bare_metal", acs_method="kernel")})
    assert (plan["status"], reboots) == ("ok", 1)
    state = observe(sim.host)
    assert {state["pcie"][a]["acs"]["enabled"] for a in (ROOT, NIC_PORT, GPU_PORT)} == {"0000000"}  # type: ignore[index]
    assert state["pcie"]["0000:16:02.0"]["acs"]["enabled"] == "0011101", "not on the path"  # type: ignore[index]


def test_a_kernel_that_takes_only_the_first_bridge(tmp_path: Path) -> None:
    """Linux after 47c8846a49ba; read back after the boot, and no second reboot for it."""
    sim = Sim(tmp_path)
    sim.inject("config-acs-misparsed")
    plan, reboots = apply(sim, {"iommu": iommu_options(acs="bare_metal", acs_method="kernel")})
    assert (plan["status"], reboots) == ("problems", 1)
    assert [p["value"] for p in plan["problems"]] == [NIC_PORT, GPU_PORT]
    plan, reboots = apply(sim, {"iommu": iommu_options(acs="bare_metal", acs_method="runtime")})
    assert (plan["status"], reboots) == ("ok", 0)


def test_lockdown(tmp_path: Path) -> None:
    sim = Sim(tmp_path)
    sim.inject("fw-lockdown")
    plan, reboots = apply(sim, {"iommu": iommu_options(acs_paths=[], max_read_request=4096)})
    assert (plan["status"], reboots) == ("problems", 0)
    assert "locked down" in plan["problems"][0]["message"]


def test_ats_comes_with_the_firmware(tmp_path: Path) -> None:
    sim = Sim(tmp_path)
    asked = {"iommu": iommu_options(ats=True, acs_paths=[])}
    (first, *_others) = apply(sim, asked)[0]["problems"]
    assert "ATS_ENABLED: true" in first["fix"]
    for card in (NIC, "0000:97:00.0", "0000:b1:00.0"):
        sim.ok(f"mstconfig -d {card} -y set ATS_ENABLED=1")
    sim.restart(cold=True)
    plan, reboots = apply(sim, asked)
    assert (plan["status"], reboots) == ("ok", 1), "the reboot is for the IOMMU"
