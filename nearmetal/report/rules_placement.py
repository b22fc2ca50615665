"""Rules about the virtual topology and where its threads and memory were."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from nearmetal.report import words
from nearmetal.report.finding import STUDY, Case, Finding
from nearmetal.report.partition import cpus, cpus_text, partition

REMOTE_PERCENT = 5.0
"""Share of memory on other nodes from which it is reported; a guest's first pages may stray a little."""

SWITCHES_PER_S = 20.0
"""Involuntary switches per second: a CPU of its own gives well under one (the tick ends no time slice)."""

WAITING_PERCENT = 1.0
"""Share of time runnable but waiting: noise of repeated runs is of this size."""

INTERRUPTS_PER_S = 2000.0
"""Twice the tick of a kernel with CONFIG_HZ=1000: more is device or IPI load."""


def placement_broken(case: Case) -> Iterator[Finding]:
    """A thread ran elsewhere than intended, or nothing shows where it ran."""
    if case.place.verdict == "broken":
        yield case.finding(
            "placement_broken", "cause", "Threads ran where they were not pinned",
            case.place.words.split("; "),
            "Pin each vCPU to one CPU (vcpupin) and see that no other tool moves the threads.",
        )  # fmt: skip
    elif case.place.verdict == "unproven":
        yield case.finding(
            "placement_unproven", "note", "The placement of the vCPU threads is not proven",
            [case.place.words],
            "Repeat the benchmark as root, so that /proc/TID/stat and /proc/TID/sched can be read.",
        )  # fmt: skip


def smt_hidden(case: Case) -> Iterator[Finding]:
    """Guest cores with one thread share a host core: the guest scheduler doubles up on it."""
    threads: dict[tuple[int, int], int] = defaultdict(int)
    for pin in case.scenario.pins:
        threads[pin.guest_socket, pin.guest_core] += 1
    shared: dict[frozenset[int], list[str]] = defaultdict(list)
    for pin in case.scenario.pins:
        if threads[pin.guest_socket, pin.guest_core] == 1 and pin.host_cpu in case.together:
            shared[case.together[pin.host_cpu]].append(f"vCPU {pin.vcpu}")
    evidence = [
        f"{words.listed(vcpus)} look like cores of their own to the guest and share the host core of CPUs "
        + cpus_text(core)
        for core, vcpus in shared.items()
        if len(vcpus) > 1
    ]
    if evidence:
        yield case.finding(
            "smt_hidden", "cause", "SMT is hidden from the guest", evidence,
            "Give the guest the threads of the host (<topology threads='2'/> and matching vcpupin).",
            f"up to −35 % {STUDY}", 4,
        )  # fmt: skip


def siblings_shuffled(case: Case) -> Iterator[Finding]:
    """Guest siblings on CPUs that are no siblings."""
    guest: dict[tuple[int, int], list[int]] = defaultdict(list)
    for pin in case.scenario.pins:
        guest[pin.guest_socket, pin.guest_core].append(pin.host_cpu)
    evidence = [
        f"guest core {core} of socket {socket} is on CPUs {cpus_text(set(on))}, which are no siblings"
        for (socket, core), on in guest.items()
        if len(on) > 1 and case.together.get(on[0]) and not set(on) <= case.together[on[0]]
    ]
    if evidence:
        yield case.finding(
            "siblings_shuffled", "cause", "Guest siblings are not siblings on the host", evidence,
            "Pin the two threads of each guest core to the two siblings of one host core.",
            f"up to −30 % {STUDY}", 6,
        )  # fmt: skip


def spans_nodes(case: Case) -> Iterator[Finding]:
    """One guest socket over several NUMA nodes, of which the guest knows nothing."""
    guest: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for pin in case.scenario.pins:
        node = case.nodes.get(pin.host_cpu)
        if node is not None:
            guest[pin.guest_socket][node].append(pin.host_cpu)
    evidence = [
        f"guest socket {socket} is on "
        + words.listed([f"node {node} (CPUs {cpus_text(set(on))})" for node, on in sorted(nodes.items())])
        for socket, nodes in guest.items()
        if len(nodes) > 1
    ]
    if evidence:
        yield case.finding(
            "spans_nodes", "cause", "One guest socket is spread over NUMA nodes", evidence,
            "Keep a guest socket on one node, or give the guest the same nodes (<numa>, numatune).",
            f"IS and CG were much slower {STUDY}", 5,
        )  # fmt: skip


def memory_remote(case: Case) -> Iterator[Finding]:
    """Guest memory on nodes on which no vCPU runs."""
    own = {case.nodes.get(p.host_cpu) for p in case.scenario.pins} - {None} or set(case.scenario.memory_nodes)
    far = [m for m in case.place.memory if m.node not in own]
    if own and sum(m.share for m in far) >= REMOTE_PERCENT:
        yield case.finding(
            "memory_remote", "cause", "Guest memory is on another NUMA node than its vCPUs",
            [f"{m.bytes} ({m.share:.0f} %) in {m.page} pages on node {m.node}; the vCPUs are on node "
             f"{words.listed([str(n) for n in sorted(n for n in own if n is not None)])}" for m in far],
            "Bind the memory (<numatune mode='strict'>) and reserve huge pages on that node.", "", 5,
        )  # fmt: skip


def huge_pages(case: Case) -> Iterator[Finding]:
    """Guest memory in small pages."""
    if not case.place.memory:
        return
    sizes = sorted({m.page for m in case.place.memory})
    share = sum(m.share for m in case.place.memory if m.page != words.size(4096))
    asked = case.scenario.hugepages_kb
    if share < 90 and asked:
        yield case.finding(
            "huge_pages", "cause", "Huge pages were asked for and not used",
            [f"{share:.0f} % of the memory is in huge pages; page sizes found: {words.listed(sizes)}"],
            f"Reserve enough {words.size(asked * 1024)} pages on the node of the vCPUs.",
        )  # fmt: skip
    elif share < 10:
        yield case.finding(
            "huge_pages", "suspect", "Guest memory is in small pages",
            [f"{100 - share:.0f} % of the memory is in {words.size(4096)} pages"],
            "Back the guest with huge pages (<memoryBacking><hugepages/>); a TLB miss in a guest walks two tables.",
        )  # fmt: skip


def preempted(case: Case) -> Iterator[Finding]:
    """Somebody else ran on the CPUs of the vCPUs."""
    pinned = [t for t in case.place.threads if t.pinned]
    often = [t for t in pinned if t.switches is not None and t.switches > SWITCHES_PER_S]
    waited = [t for t in pinned if t.waiting is not None and t.waiting > WAITING_PERCENT]
    moved = [t for t in pinned if t.migrations]
    evidence = [f"{t.name}: {words.number(t.switches or 0)} involuntary switches a second" for t in often]
    evidence += [f"{t.name}: waited {words.number(t.waiting or 0)} % of the time that it wanted to run" for t in waited]
    if evidence:
        yield case.finding(
            "preempted", "cause", "Other work took time from the vCPUs", evidence,
            "Isolate the CPUs of guests (role cpu_isolation) and keep emulator threads and daemons off them.",
        )  # fmt: skip
    if moved:
        yield case.finding(
            "migrated", "suspect", "Pinned vCPU threads migrated",
            [f"{t.name}: {words.count(t.migrations or 0, 'migration')} in one run" for t in moved],
            "A thread with one allowed CPU cannot migrate: pin before the benchmark starts, one CPU per vCPU.",
        )  # fmt: skip


def emulator(case: Case) -> Iterator[Finding]:
    """QEMU's other threads share CPUs with vCPUs."""
    vcpus = {p.host_cpu for p in case.scenario.pins}
    given = cpus(case.scenario.emulator_cpus)
    if vcpus and (not given or given & vcpus):
        said = f"emulator threads may use {cpus_text(given & vcpus)}" if given else "no emulatorpin is set"
        yield case.finding(
            "emulator", "suspect", "Emulator threads may run on the CPUs of vCPUs",
            [f"{said}; vCPUs are pinned to {cpus_text(vcpus)}"],
            "Pin the emulator to reserved CPUs (<emulatorpin>; KubeVirt: isolateEmulatorThread).",
        )  # fmt: skip


def interrupted(case: Case) -> Iterator[Finding]:
    """Device interrupts on the CPUs of vCPUs."""
    busy = [(cpu, rate) for cpu, rate in case.place.interrupts if rate > INTERRUPTS_PER_S]
    if case.scenario.pins and busy:
        yield case.finding(
            "interrupted", "suspect", "Many interrupts on the CPUs of vCPUs",
            [f"CPU {cpu}: {words.number(rate)} interrupts a second" for cpu, rate in busy],
            "Steer IRQs to reserved CPUs (role cpu_isolation) and stop irqbalance from moving them back.",
        )  # fmt: skip


def not_isolated(case: Case) -> Iterator[Finding]:
    """Pinned to CPUs that the host uses too."""
    if case.state is None or not case.scenario.pins:
        return
    split = partition(case.state)
    shared = {p.host_cpu for p in case.scenario.pins} - split.isolated
    if split.how != "unknown" and shared:
        yield case.finding(
            "not_isolated", "cause", "vCPUs are pinned to CPUs that the host uses too",
            [f"CPUs {cpus_text(shared)} are not kept for guests; {split.words}"],
            "Isolate these CPUs (role cpu_isolation), or pin the guest to isolated ones.",
        )  # fmt: skip


RULES = (
    placement_broken, smt_hidden, siblings_shuffled, spans_nodes, memory_remote, huge_pages, preempted,
    emulator, interrupted, not_isolated,
)  # fmt: skip
"""Every rule about one VM scenario."""
