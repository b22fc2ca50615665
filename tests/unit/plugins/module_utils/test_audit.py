from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import trees
from ansible_collections.nearmetal.rack.plugins.module_utils import audit, fabric_explain
from ansible_collections.nearmetal.rack.plugins.module_utils.audit_checks import glued
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.document import observe
from hypothesis import given
from hypothesis import strategies as st

from nearmetal import archives, core

NIC = {"address": "0000:17:00.0", "node": 0, "vfs": (0, 8), "group": 1}
GPU = {"address": "0000:81:00.0", "class_": "0x030200", "vendor": "0x10de", "node": 1, "group": 2}
SMALL = {"nodes": 2, "cores": 2, "threads": 2, "memory_gib": 32}


def state(live: bool = True, folders: tuple[str, ...] = (), **shape: Any) -> Any:
    tree = trees.build(**{**SMALL, **shape})
    tree.folders += folders
    return observe(tree.host(live=live))


def findings(found: Any, preset: str = "ai_storage_vm") -> dict[str, str]:
    return {f["id"]: f["evidence"] for f in audit.audit(found, preset)["findings"]}


GOOD = {
    "files": {
        "/sys/fs/cgroup/system.slice/cpuset.cpus": "0,4\n", "/sys/fs/cgroup/user.slice/cpuset.cpus": "0,4\n",
    },
    "hugepages": {(0, 1048576): 4, (1, 1048576): 4},
    "devices": [{**NIC, "vfs": (4, 8)}, {**NIC, "address": "0000:82:00.0", "node": 1, "vfs": (4, 8)}, GPU],
    "folders": ("/sys/class/iommu/dmar0",),
}  # fmt: skip


def test_a_good_host_has_only_notes() -> None:
    result = audit.audit(state(**GOOD))
    assert {f["id"] for f in result["findings"]} == {"smt-on"}
    assert len(result["passed"]) + len(result["not_checked"]) + 1 == len(audit.RULES)


CASES: list[tuple[str, dict[str, Any], str]] = [
    ("iommu-off", {"folders": ()}, "/sys/class/iommu is empty"),
    ("iommu-off", {"folders": ("/sys/firmware/acpi/tables", "/sys/firmware/acpi/tables/DMAR")}, "(DMAR)"),
    ("hugepages-none", {"hugepages": {}}, "all 4 pools"),
    ("hugepages-uneven", {"hugepages": {(0, 2048): 4}}, "no huge pages on node 1"),
    ("hugepages-default", {"hugepages": {(0, 2048): 4}, "memory_gib": 256}, "256 GiB"),
    ("no-isolation", {"files": {}}, "may use all CPUs"),
    ("managed-irq-only", {"cmdline": "isolcpus=managed_irq,1-3,5-7"}, "isolcpus=managed_irq,1-3,5-7"),
    ("boot-core-isolated", {"files": {trees.CPU + "/isolated": "0-7\n"}}, "core 0,4 of boot CPU 0"),
    ("boot-core-isolated", {"files": {trees.CPU + "/nohz_full": "4-7\n"}}, "nohz_full"),
    ("split-core", {"files": {trees.CPU + "/isolated": "1\n"}}, "1 core(s): 1,5"),
    ("cpus-offline", {"offline": [7]}, "7"),
    ("smt-off", {"threads": 1, "files": {trees.CPU + "/smt/control": "off\n"}}, "off"),
    ("device-without-node", {"devices": [{**NIC, "node": None}]}, "0000:17:00.0"),
    ("gpu-far-from-nic", {"devices": [NIC, GPU]}, "GPU 0000:81:00.0 on node 1"),
    ("no-vfs", {"devices": [NIC]}, "0000:17:00.0 (0 of 8)"),
    (
        "irqbalance",
        {"folders": ("/sys/fs/cgroup/system.slice/irqbalance.service",), "files": {trees.CPU + "/isolated": "1,5\n"}},
        "CPUs 1,5",
    ),
    ("irqs-on-isolated", {"irqs": 2, "files": {trees.CPU + "/isolated": "0,4\n"}}, "2 interrupt(s): 24 nic-24"),
    ("thp-always", {"files": {"/sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n"}}, "always"),
    ("idle-poll", {"cmdline": "ro idle=poll"}, "idle=poll"),
    ("pstate-off", {"cmdline": "ro intel_pstate=disable"}, "intel_pstate=disable"),
    ("mitigations-off", {"cmdline": "mitigations=off"}, "mitigations=off"),
    ("glued-words", {"cmdline": "ro console=ttyS0,115200n8spectre_v2=off"}, "115200n8spectre_v2=off"),
    ("lockdown", {"files": {"/sys/kernel/security/lockdown": "none [integrity] confidentiality\n"}}, "integrity"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "change", "evidence"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)])
def test_each_rule_finds_its_fault(rule: str, change: dict[str, Any], evidence: str) -> None:
    assert rule not in findings(state(**GOOD))
    assert evidence in findings(state(**{**GOOD, **change}))[rule]


def test_rules_without_a_tree_of_their_own() -> None:
    good = state(**GOOD)
    assert "iommu-translated" in findings({**good, "iommu": {**good["iommu"], "types": {"DMA-FQ": 3}}})
    assert "kvm-missing" in findings({**good, "kvm": False})
    pending = {**good, "boot": {**good["boot"], "configured": "BOOT_IMAGE=/x ro quiet isolcpus=2"}}
    pending["unread"] = []
    assert "configured only: isolcpus=2" in findings(pending)["reboot-pending"]


def test_every_rule_has_a_case() -> None:
    tested = {case[0] for case in CASES} | {"iommu-translated", "kvm-missing", "reboot-pending", "smt-on"}
    ours = {rule.id for rule in fabric_explain.RULES}  # test_fabric_explain.py has a case of each
    assert tested == {rule.id for rule in audit.RULES} - ours


def test_unread_is_never_a_finding() -> None:
    """In an empty tree nothing is known: there is nothing to find, only what was not checked."""
    result = audit.audit(observe(trees.Tree({"/sys/devices/system/cpu/online": "0\n"}).host()))
    assert [f["id"] for f in result["findings"]] == []
    assert {e["id"] for e in result["not_checked"]} >= {"iommu-off", "hugepages-none", "no-isolation", "no-vfs", "irqbalance"}
    assert all(e["reason"] for e in result["not_checked"])


def test_presets_name_rules_that_exist() -> None:
    ids = [rule.id for rule in audit.RULES]
    assert len(ids) == len(set(ids))
    assert all(set(preset["rules"]) <= set(ids) and preset["description"] for preset in audit.PRESETS.values())
    assert "no-vfs" not in findings(state(devices=[NIC]), "pinned_vm")


def test_fixes_name_variables_that_exist() -> None:
    roles = Path(__file__).resolve().parents[4] / "roles"
    known = set()
    for spec in roles.glob("*/meta/argument_specs.yml"):
        known |= set(re.findall(r"(?m)^\s+((?:cpu_isolation|hugepages|iommu|kernel_args)_\w+):", spec.read_text()))
    used = {w for rule in audit.RULES for w in re.findall(r"\b(?:cpu_isolation|hugepages|iommu|kernel_args)_\w+", rule.fix)}
    assert used and used <= known


@pytest.mark.parametrize(
    "text",
    [
        "root=UUID=1-2 ro rd.lvm.lv=vg/root", 'dyndbg="file x.c +p" systemd.setenv=A=hugepages=1',
        "default_hugepagesz=1G hugepagesz=1G hugepages=16 intel_iommu=on,sm_on iommu=pt",
        "console=tty0 console=ttyS0,115200n8 rootflags=subvol=root pci=realloc,pcie_bus_perf",
        "ostree=/ostree/boot.1/rhcos/0 ignition.config.url=http://x/?console=1",
    ],
)  # fmt: skip
def test_words_that_are_not_glued(text: str) -> None:
    assert glued(text) == []


@given(st.sampled_from(["spectre_v2=off", "hugepages=16", "isolcpus=1-3", "intel_iommu=on"]))
def test_glued_words_are_found(word: str) -> None:
    assert glued("quiet console=ttyS0,115200n8" + word) == ["console=ttyS0,115200n8" + word]


def test_a_real_host(samples: Path) -> None:
    path = samples / "topology" / "nto-must-gather-worker1.internal-sysinfo.tgz"
    found = findings(core.observe(archives.tree_host(path)))
    assert {"managed-irq-only", "boot-core-isolated", "idle-poll", "hugepages-uneven"} <= found.keys()
    assert "no-isolation" not in found and "iommu-off" not in found
