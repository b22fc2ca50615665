# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps a host's VMs from the speed of bare metal: findings against a preset, from a state document.

A rule is data (title, severity, cost with its source, fix) and a small function in audit_checks.py that
returns the evidence, or "" where all is well. A section that could not be read is no evidence: the rule
is then "not checked", with the reason.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Callable, Dict, List, Tuple

from . import audit_checks as checks
from . import fabric_explain
from .audit_checks import Unknown
from .state import State

SCHEMA = 1
SEVERITIES = ("high", "medium", "low", "note")

REPORT_A = "field report of SK Telecom and NetApp: AI storage in KubeVirt VMs"
REPORT_B = "field report: CPU pinning under eight virtual topologies, NAS Parallel Benchmarks"
KERNEL = "Linux kernel documentation"
GUIDE = "NVIDIA AI Enterprise, optimizing VM configuration"
NO_FIGURE = "no published figure: measure with nearmetal bench"


@dataclass(frozen=True)
class Rule:
    """One thing that may be wrong. `needs`: sections of the document that must have been read."""

    id: str
    severity: str
    title: str
    needs: Tuple[str, ...]
    check: Callable[[State], str]
    cost: str
    source: str
    fix: str
    cause: str = ""


def _fabric_rule(rule: fabric_explain.FabricRule) -> Rule:
    """A rule of the fabric as a rule of the audit."""
    return Rule(
        rule.id, rule.severity, rule.title, (), lambda state: checks.fabric(state, rule), rule.cost, rule.source,
        rule.fix, rule.cause,
    )  # fmt: skip


_HOST_RULES: Tuple[Rule, ...] = (
    Rule(
        "kvm-missing", "high", "No hardware virtualization", (), checks.kvm_missing,
        "guests are emulated, tens of times slower", KERNEL,
        "switch VT-x or SVM on in the BIOS, and load kvm_intel or kvm_amd",
    ),
    Rule(
        "iommu-off", "high", "The IOMMU is off", ("iommu",), checks.iommu_off,
        "no VF, NIC or GPU can be given to a VM: storage through an RDMA client in the guest is closed", REPORT_A,
        "iommu_mode: passthrough (and VT-d or AMD-Vi on in the BIOS)",
    ),
    Rule(
        "iommu-translated", "medium", "The host's own DMA is translated", ("iommu",), checks.iommu_translated,
        NO_FIGURE, REPORT_A + " (IOMMU settings alone closed the gap to bare metal)", "iommu_mode: passthrough",
    ),
    Rule(
        "hugepages-none", "high", "No huge pages are reserved", ("memory.hugepages", "memory"), checks.hugepages_none,
        NO_FIGURE, REPORT_B + " (recommended)", "hugepages_pages: [{size: 1G, count: N}]",
    ),
    Rule(
        "hugepages-uneven", "medium", "A NUMA node has CPUs but no huge pages", ("memory.hugepages",),
        checks.hugepages_missing_on_node,
        "a guest there gets remote memory, or does not start; across nodes IS and CG were much worse", REPORT_B,
        "hugepages_pages: one entry for each node, with `node`",
    ),
    Rule(
        "hugepages-default", "low", "Large host with 2M as the only huge pages", ("memory",), checks.hugepages_default,
        NO_FIGURE, KERNEL + ", hugetlbpage", "hugepages_pages with size 1G, hugepages_default_size: 1G",
    ),
    Rule(
        "no-isolation", "high", "No CPUs are kept free for guests", (), checks.no_isolation,
        "daemons and interrupts run on the VMs' CPUs; " + NO_FIGURE, REPORT_B + " (recommended: isolcpus or cpusets)",
        "role cpu_isolation (cpu_isolation_mode: cpusets)",
    ),
    Rule(
        "managed-irq-only", "high", "isolcpus= isolates no scheduling domain", ("kernel.cmdline",),
        checks.managed_irq_only, "the scheduler still places tasks on these CPUs; " + NO_FIGURE,
        KERNEL + ", kernel-parameters: isolcpus (domain is the default only without flags)",
        "cpu_isolation_isolcpus_flags: [domain, managed_irq], or cpu_isolation_mode: cpusets",
    ),
    Rule(
        "boot-core-isolated", "medium", "The boot CPU's core is isolated", ("cpu.cores",), checks.boot_core_isolated,
        "timekeeping and early boot work stay there and disturb the guest; " + NO_FIGURE, KERNEL + ", no_hz",
        "cpu_isolation_reserved_cores_per_node: 1 (the boot CPU's core always stays with the host)",
    ),
    Rule(
        "split-core", "high", "A core is split between host and guests", ("cpu.cores",), checks.split_core,
        "siblings compete for one core: up to -30 % when they do not match", REPORT_B + ", scenario 6",
        "role cpu_isolation (it takes whole cores)",
    ),
    Rule(
        "cpus-offline", "medium", "CPUs are offline", ("cpu.online", "cpu.present"), checks.cpus_offline,
        "their share of the processor", KERNEL + ", cpu_hotplug", "take maxcpus= and nosmt out, or chcpu -e",
    ),
    Rule(
        "smt-off", "low", "SMT is switched off", ("cpu.smt",), checks.smt_off,
        "two threads a core gave EP +60 % throughput", REPORT_B + ", scenario 7",
        "kernel_args_absent: [nosmt], and SMT on in the BIOS",
    ),
    Rule(
        "smt-on", "note", "SMT is on: guests must be shown it", ("cpu.cores",), checks.smt_on,
        "up to -35 % where the guest does not see the siblings, -30 % where they are pinned wrongly",
        REPORT_B + ", scenarios 4 and 6", "pin vCPUs as whole cores and give the guest the same topology",
    ),
    Rule(
        "device-without-node", "medium", "A device's NUMA node is not known", ("pci",), checks.device_without_node,
        "guests cannot be placed near it: 8.35 instead of 9.48 GiB/s from the far node", GUIDE,
        "set the NUMA mode of the BIOS (SNC, NPS) so that firmware gives each device its node; update the firmware",
    ),
    Rule(
        "gpu-far-from-nic", "medium", "A GPU has no network device on its NUMA node", ("pci",), checks.gpu_far_from_nic,
        "8.35 instead of 9.48 GiB/s read over NFS with RDMA", GUIDE,
        "move the card, or place guests with this GPU knowingly",
    ),
    Rule(
        "no-vfs", "medium", "SR-IOV devices without virtual functions", ("pci",), checks.no_vfs,
        "no VF for a guest's RDMA client", REPORT_A,
        "sriov_pfs: vfs",
    ),
    Rule(
        "irqbalance", "medium", "irqbalance may move interrupts to isolated CPUs", (), checks.irqbalance_active,
        NO_FIGURE, "irqbalance(1): IRQBALANCE_BANNED_CPULIST", "role cpu_isolation (it tells irqbalance)",
    ),
    Rule(
        "irqs-on-isolated", "medium", "Interrupts arrive on isolated CPUs", ("confinement.irqs",),
        checks.irqs_on_isolated, NO_FIGURE, KERNEL + ", core-api/irq/irq-affinity", "role cpu_isolation",
    ),
    Rule(
        "thp-always", "low", "Transparent huge pages are always on", ("memory.thp",), checks.thp_always,
        "khugepaged works on the guests' CPUs at times of its own; " + NO_FIGURE, KERNEL + ", transhuge",
        "kernel_args_present: [transparent_hugepage=madvise]",
    ),
    Rule(
        "idle-poll", "medium", "Idle CPUs poll", ("kernel.cmdline",), checks.idle_poll,
        "a polling sibling takes the core from the busy one, and nothing is left for turbo; " + NO_FIGURE,
        KERNEL + ", kernel-parameters: idle", "kernel_args_absent: [idle]",
    ),
    Rule(
        "pstate-off", "low", "The processor's frequency driver is disabled", ("kernel.cmdline",), checks.pstate_off,
        "frequency stays where the BIOS left it; " + NO_FIGURE, KERNEL + ", intel_pstate, amd-pstate",
        "kernel_args_absent: [intel_pstate, amd_pstate]",
    ),
    Rule(
        "mitigations-off", "note", "Mitigations for processor vulnerabilities are off", ("kernel.cmdline",),
        checks.mitigations_off, "none: it is faster, and guests can read what is not theirs",
        KERNEL + ", kernel-parameters: mitigations", "kernel_args_absent: [mitigations=off] where guests are not trusted",
    ),
    Rule(
        "glued-words", "high", "Kernel arguments run into each other", ("kernel.cmdline",), checks.glued_words,
        "both arguments are lost", "redhat-performance/tuned#268",
        "separate them where the boot loader is configured: see `sources` in nearmetal inspect --json",
    ),
    Rule(
        "reboot-pending", "note", "Configured kernel arguments are not the running ones", ("kernel.cmdline", "boot"),
        checks.reboot_pending, "settings are not in force until the reboot", KERNEL, "reboot",
    ),
    Rule(
        "lockdown", "note", "Kernel lockdown blocks firmware tools", ("kernel.lockdown",), checks.lockdown,
        "mstconfig and setpci cannot work", "Mellanox/mstflint#1371", "switch Secure Boot off to change NIC firmware",
    ),
)  # fmt: skip

RULES: Tuple[Rule, ...] = _HOST_RULES + tuple(_fabric_rule(rule) for rule in fabric_explain.RULES)

_FABRIC = (
    "iommu-off", "iommu-translated", "no-vfs", "gpu-far-from-nic", "lockdown",
    *(rule.id for rule in fabric_explain.RULES),
)  # fmt: skip

PRESETS: Dict[str, Dict[str, Any]] = {
    "ai_storage_vm": {
        "description": "VMs with GPU, RDMA storage through a VF, pinned CPUs and huge pages",
        "rules": tuple(rule.id for rule in RULES),
    },
    "pinned_vm": {
        "description": "VMs with pinned CPUs and huge pages, no devices passed through",
        "rules": tuple(rule.id for rule in RULES if rule.id not in _FABRIC),
    },
}


def audit(state: State, preset: str = "ai_storage_vm") -> Dict[str, Any]:
    """`{schema, preset, findings, not_checked, passed}`. Raises KeyError for a preset that there is not.

    findings: `{id, severity, title, evidence, cause, cost, source, fix}`, the worst first; not_checked:
    `{id, title, reason}`; passed: ids.
    """
    wanted = PRESETS[preset]["rules"]
    findings: List[Dict[str, Any]] = []
    not_checked: List[Dict[str, str]] = []
    passed: List[str] = []
    for rule in (rule for rule in RULES if rule.id in wanted):
        reason = _unread(rule, state)
        evidence = ""
        if not reason:
            try:
                evidence = rule.check(state)
            except Unknown as err:
                reason = str(err)
        if reason:
            not_checked.append({"id": rule.id, "title": rule.title, "reason": reason})
        elif evidence:
            findings.append({**_as_dict(rule), "evidence": evidence})
        else:
            passed.append(rule.id)
    findings.sort(key=lambda finding: SEVERITIES.index(finding["severity"]))
    return {"schema": SCHEMA, "preset": preset, "findings": findings, "not_checked": not_checked, "passed": passed}


def _as_dict(rule: Rule) -> Dict[str, Any]:
    return {key: value for key, value in asdict(rule).items() if key not in ("check", "needs")}


def _unread(rule: Rule, state: State) -> str:
    """Why a section that the rule needs is not known; "" where all were read."""
    for note in state["unread"]:
        if note["section"] in rule.needs:
            return "%s: %s" % (note["section"], note["reason"])
    return ""
