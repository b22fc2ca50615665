# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks of audit.py: each takes a state document and returns the evidence, "" where all is well."""

from __future__ import annotations

import re
from typing import Dict, FrozenSet, List

from . import cpulist, fabric_explain, slices
from .state import Function, State

GIB = 1 << 30
FIRMWARE_RULES = ("firmware-waits", "firmware-lockdown", "bios-sriov-off")
"""Rules about the fabric that rest on what the cards' firmware says."""

LARGE_BYTES = 64 * GIB
HUGE_KB = 1048576

KNOWN = (
    "amd_iommu", "amd_pstate", "audit", "console", "crashkernel", "default_hugepagesz", "hugepages", "hugepagesz",
    "idle", "intel_idle.max_cstate", "intel_iommu", "intel_pstate", "iommu", "isolcpus", "mce", "mitigations",
    "nmi_watchdog", "nohz_full", "pci", "processor.max_cstate", "rcu_nocbs", "selinux", "skew_tick", "spectre_v2",
    "transparent_hugepage", "tsc",
)  # fmt: skip
"""Arguments that are never part of another one's value."""

_GLUED = re.compile(r"[A-Za-z0-9]((?:%s)=)" % "|".join(re.escape(name) for name in sorted(KNOWN, key=len, reverse=True)))
_FREE = ("systemd.setenv", "dyndbg", "ostree", "BOOT_IMAGE", "root", "rd.luks.options", "init")


class Unknown(Exception):
    """The document does not say."""


def words(text: str) -> List[str]:
    """Words of kernel arguments; double quotes hold white space, as in the kernel's own parser."""
    return [word for word in re.findall(r'(?:[^\s"]|"[^"]*")+', text) if word != "--"]


def _running(state: State) -> List[str]:
    cmdline = state["kernel"]["cmdline"]
    if cmdline is None:
        raise Unknown("kernel.cmdline: the running arguments are not known")
    return words(cmdline)


def _values(state: State, name: str) -> List[str]:
    return [word.partition("=")[2] for word in _running(state) if word.partition("=")[0].replace("-", "_") == name]


def _isolcpus(state: State) -> Dict[str, FrozenSet[int]]:
    """CPUs of the last isolcpus=, by flag ("domain", "managed_irq", "nohz")."""
    found: Dict[str, FrozenSet[int]] = {}
    for value in _values(state, "isolcpus")[-1:]:
        flags = []
        rest = value.split(",")
        while rest and not rest[0][:1].isdigit():
            flags.append(rest.pop(0))
        try:
            cpus = cpulist.parse(",".join(rest))
        except ValueError as err:
            raise Unknown("isolcpus: %s" % err) from None
        found = dict.fromkeys(flags or ["domain"], cpus)
    return found


def isolated(state: State) -> FrozenSet[int]:
    """CPUs off limits for the scheduler: the kernel's word, else what isolcpus= asked for."""
    said = state["cpu"]["isolated"]
    if said is not None:
        return cpulist.parse(said)
    return _isolcpus(state).get("domain", frozenset())


def _confined(state: State) -> FrozenSet[int]:
    """CPUs that cpusets keep system.slice and user.slice off; empty where they are free to run anywhere."""
    confinement = state["confinement"]
    online = cpulist.parse(state["cpu"]["online"])
    allowed: FrozenSet[int] = frozenset()
    for unit in ("system.slice", "user.slice"):
        if slices.absent(confinement, unit):
            continue
        cpus = confinement["slices"].get(unit)
        if cpus is None:
            raise Unknown("confinement.slices: the cpuset of %s is not known" % unit)
        allowed |= cpulist.parse(cpus) if cpus else online
    return online - allowed


def kept_free(state: State) -> FrozenSet[int]:
    """CPUs that daemons cannot use, by either means."""
    found = isolated(state)
    return found or _confined(state)


def kvm_missing(state: State) -> str:
    """No /dev/kvm."""
    if state["kvm"] is None:
        raise Unknown("kvm: this tree has no /dev")
    if state["kvm"]:
        return ""
    flag = state["cpu"]["flags_virt"]
    return "/dev/kvm is missing" + (", although the processor has %s" % flag if flag else "")


def iommu_off(state: State) -> str:
    """No unit in use. Groups are no evidence: the kernel makes them without translation, too."""
    iommu = state["iommu"]
    if iommu["units"]:
        return ""
    tables = iommu.get("tables")
    if tables:
        return "/sys/class/iommu is empty; the firmware describes an IOMMU (%s)" % ", ".join(tables)
    return "/sys/class/iommu is empty" + ("" if tables is None else "; the firmware describes none")


def iommu_translated(state: State) -> str:
    """Groups of a translated type on a host whose IOMMU works. Grace needs translation."""
    iommu = state["iommu"]
    translated = {kind: count for kind, count in iommu["types"].items() if kind.startswith("DMA")}
    if not iommu["units"] or not translated or state["cpu"]["arch"] == "aarch64":
        return ""
    said = ", ".join("%d groups are %s" % (count, kind) for kind, count in sorted(translated.items()))
    return "/sys/kernel/iommu_groups/*/type: %s" % said


def hugepages_none(state: State) -> str:
    """All pools are empty."""
    pools = state["memory"]["hugepages"]
    if not pools:
        raise Unknown("memory.hugepages: no pools in the document")
    return "" if any(pool["total"] for pool in pools) else "nr_hugepages is 0 in all %d pools" % len(pools)


def hugepages_missing_on_node(state: State) -> str:
    """Some nodes with CPUs have pages, others none."""
    totals: Dict[int, int] = {}
    for pool in state["memory"]["hugepages"]:
        totals[pool["node"]] = totals.get(pool["node"], 0) + pool["total"]
    empty = [n["id"] for n in state["cpu"]["nodes"] if n["cpus"] and not totals.get(n["id"])]
    if not any(totals.values()) or not empty:
        return ""
    return "no huge pages on node %s; there are some on node %s" % (
        ", ".join(map(str, empty)), ", ".join(str(node) for node, total in sorted(totals.items()) if total),
    )  # fmt: skip


def hugepages_default(state: State) -> str:
    """1G pages exist, the host is large, and none is reserved."""
    memory = state["memory"]
    total = memory["total_bytes"]
    if total is None:
        raise Unknown("memory: the size of the memory is not known")
    if total < LARGE_BYTES or HUGE_KB not in memory["hugepage_sizes_kb"]:
        return ""
    if any(pool["size_kb"] >= HUGE_KB and pool["total"] for pool in memory["hugepages"]):
        return ""
    return "%d GiB of memory, no page of 1G reserved" % (total // GIB)


def no_isolation(state: State) -> str:
    """Neither isolcpus nor cpusets."""
    if isolated(state) or _confined(state):
        return ""
    return "/sys/devices/system/cpu/isolated is empty, and system.slice and user.slice may use all CPUs"


def managed_irq_only(state: State) -> str:
    """`isolcpus` with flags, domain not among them."""
    found = _isolcpus(state)
    if not found or "domain" in found:
        return ""
    return "isolcpus=%s" % _values(state, "isolcpus")[-1]


def boot_core_isolated(state: State) -> str:
    """The core with the lowest online CPU is isolated, or without its timer tick."""
    boot = state["cpu"]["boot_cpu"]
    core = next((cpulist.parse(c["cpus"]) for c in state["cpu"]["cores"] if boot in cpulist.parse(c["cpus"])), frozenset())
    ticks = state["cpu"]["nohz_full"]
    if ticks is None:
        ticks = (_values(state, "nohz_full") or [""])[-1]
    try:
        sets = {"isolated": isolated(state), "nohz_full": cpulist.parse(ticks)}
    except ValueError as err:
        raise Unknown("nohz_full: %s" % err) from None
    sets.update(("isolcpus=" + flag, cpus) for flag, cpus in _isolcpus_if_known(state).items() if flag != "domain")
    hit = [name for name, cpus in sets.items() if cpus & core]
    return "core %s of boot CPU %d is in %s" % (cpulist.format(core), boot, ", ".join(hit)) if hit else ""


def _isolcpus_if_known(state: State) -> Dict[str, FrozenSet[int]]:
    return _isolcpus(state) if state["kernel"]["cmdline"] is not None else {}


def split_core(state: State) -> str:
    """A core with one sibling kept free and another not."""
    free = kept_free(state)
    split = [c["cpus"] for c in state["cpu"]["cores"] if 0 < len(cpulist.parse(c["cpus"]) & free) < len(cpulist.parse(c["cpus"]))]
    if not split:
        return ""
    return "%d core(s): %s%s" % (len(split), " / ".join(split[:4]), " ..." if len(split) > 4 else "")


def cpus_offline(state: State) -> str:
    """Present CPUs that are not online."""
    offline = state["cpu"]["offline"]
    return "/sys/devices/system/cpu/offline: %s" % offline if offline else ""


def smt_off(state: State) -> str:
    """The kernel or an argument has switched SMT off."""
    control = state["cpu"]["smt"]
    return "/sys/devices/system/cpu/smt/control is %s" % control if control in ("off", "forceoff") else ""


def smt_on(state: State) -> str:
    """Cores have several threads."""
    threads = state["cpu"]["threads_per_core"]
    return "%d threads a core" % threads if threads > 1 else ""


def _of_class(state: State, *classes: str) -> List[Function]:
    """Physical functions of these classes (first four characters: "0x02")."""
    return [f for f in state["pci"] if f["class"][:4] in classes and not f["physfn"]]


def _several_nodes(state: State) -> bool:
    return sum(1 for node in state["cpu"]["nodes"] if node["cpus"]) > 1


def device_without_node(state: State) -> str:
    """A NIC, GPU or NVMe device whose node the firmware does not give, on a host with several."""
    if not _several_nodes(state):
        return ""
    lost = [f["address"] for f in _of_class(state, "0x02", "0x03", "0x12") if f["numa_node"] is None]
    lost += [f["address"] for f in state["pci"] if f["class"][:6] == "0x0108" and f["numa_node"] is None]
    return "numa_node is -1 or missing: %s%s" % (", ".join(lost[:6]), " ..." if len(lost) > 6 else "") if lost else ""


def _gpus(state: State) -> List[Function]:
    """Accelerators and 3D controllers; a VGA of NVIDIA or AMD too, but not a BMC's."""
    makers = ("0x10de", "0x1002")
    return [
        f
        for f in _of_class(state, "0x03", "0x12")
        if f["class"][:6] in ("0x0302", "0x1200") or f["class"][:6] == "0x0300" and f["vendor"] in makers
    ]


def gpu_far_from_nic(state: State) -> str:
    """A GPU on a node where no network device sits."""
    if not _several_nodes(state):
        return ""
    nics = {f["numa_node"] for f in _of_class(state, "0x02")}
    far = [f for f in _gpus(state) if f["numa_node"] is not None and f["numa_node"] not in nics]
    if not nics - {None} or not far:
        return ""
    return "; ".join("GPU %s on node %d" % (f["address"], f["numa_node"] or 0) for f in far[:4])


def no_vfs(state: State) -> str:
    """Network devices that could have VFs and have none."""
    idle = [f for f in _of_class(state, "0x02") if f["sriov_total"] and not f["sriov_vfs"]]
    return ", ".join("%s (0 of %d)" % (f["address"], f["sriov_total"]) for f in idle[:6])


def irqbalance_active(state: State) -> str:
    """Irqbalance runs, CPUs are kept free, and it has not been told which."""
    running = state["confinement"]["irqbalance"]
    if running == "":
        raise Unknown("confinement.irqbalance: not known")
    if running != "active":
        return ""
    free = kept_free(state)
    told = any("IRQBALANCE_BANNED_CPU" in text for text in state["confinement"]["files"].values())
    return "irqbalance is active, CPUs %s are kept free" % cpulist.format(free) if free and not told else ""


def irqs_on_isolated(state: State) -> str:
    """Interrupts in use whose effective affinity lies among CPUs that are kept free."""
    free = kept_free(state)
    if not free:
        return ""
    hit = []
    for irq in state["confinement"]["irqs"]:
        try:
            if irq["name"] and cpulist.parse(irq["effective"]) & free:
                hit.append("%d %s" % (irq["irq"], irq["name"]))
        except ValueError:
            raise Unknown("confinement.irqs: affinity of interrupt %d is %r" % (irq["irq"], irq["effective"])) from None
    return "%d interrupt(s): %s%s" % (len(hit), ", ".join(hit[:3]), " ..." if len(hit) > 3 else "") if hit else ""


def thp_always(state: State) -> str:
    """Transparent huge pages without asking."""
    mode = state["memory"].get("thp")
    if mode is None:
        raise Unknown("memory.thp: not known")
    return "/sys/kernel/mm/transparent_hugepage/enabled is always" if mode == "always" else ""


def idle_poll(state: State) -> str:
    """`idle=poll` among the running arguments."""
    return "idle=poll" if "poll" in _values(state, "idle") else ""


def pstate_off(state: State) -> str:
    """A frequency driver is disabled by argument."""
    hit = [w for w in _running(state) if w in ("intel_pstate=disable", "amd_pstate=disable")]
    return ", ".join(hit)


def mitigations_off(state: State) -> str:
    """`mitigations=off`."""
    return "mitigations=off" if "off" in _values(state, "mitigations")[-1:] else ""


def glued(text: str) -> List[str]:
    """Words that hold a second argument: `console=ttyS0,115200n8spectre_v2=off`."""
    found = []
    for word in words(text):
        name, equals, value = word.partition("=")
        if equals and name not in _FREE and '"' not in value and _GLUED.search(value):
            found.append(word)
    return found


def glued_words(state: State) -> str:
    """Such words in the running or the configured arguments."""
    hit = glued(state["kernel"]["cmdline"] or "")
    hit += [word for word in glued(state["boot"]["configured"] or "") if word not in hit]
    return ", ".join(hit)


def reboot_pending(state: State) -> str:
    """Words that are configured and not running, or the other way round."""
    configured = state["boot"]["configured"]
    if configured is None:
        raise Unknown("boot: the configured arguments are not known")
    ours = {"BOOT_IMAGE", "initrd"}  # the boot loader's own
    want = {w for w in words(configured) if w.partition("=")[0] not in ours}
    have = {w for w in _running(state) if w.partition("=")[0] not in ours}
    parts = [
        "%s: %s" % (label, " ".join(sorted(found)[:6]))
        for label, found in (("configured only", want - have), ("running only", have - want))
        if found
    ]
    return "; ".join(parts)


def lockdown(state: State) -> str:
    """Integrity or confidentiality mode."""
    mode = state["kernel"]["lockdown"]
    return "/sys/kernel/security/lockdown is %s" % mode if mode in ("integrity", "confidentiality") else ""


def fabric(state: State, rule: fabric_explain.FabricRule) -> str:
    """What a rule about PFs, VFs, bonds and eswitches found. Evidence counts even where other parts were not read."""
    seen = fabric_explain.state_view(state)
    if seen is None:
        raise Unknown("fabric: not in this document")
    evidence = str(fabric_explain.apply_rule(rule, seen).get("evidence", ""))
    if evidence or not seen.pfs:
        return evidence
    if rule.id in FIRMWARE_RULES and not seen.firmware:
        raise Unknown("firmware: the cards were not asked")
    sections = ("fabric", "fabric.lag") if rule.id.startswith("lag-") else ("fabric",)
    for note in state["unread"]:
        if note["section"] in sections:
            raise Unknown("%s: %s" % (note["section"], note["reason"]))
    return ""
