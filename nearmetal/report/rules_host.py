"""Rules about a host and about what its figures can tell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ansible_collections.nearmetal.rack.plugins.module_utils import fabric_explain

from nearmetal.bench.results import HostResults, Scenario
from nearmetal.report import cmdline, words
from nearmetal.report.finding import Finding
from nearmetal.report.partition import cpus, cpus_text, partition

if TYPE_CHECKING:
    from ansible_collections.nearmetal.rack.plugins.module_utils.state import State

FEWEST_RUNS = 3
"""Below this the spread says nothing."""


def isolation_unverified(results: HostResults, state: State | None) -> Iterator[Finding]:
    """Nothing shows that the CPUs of guests are isolated."""
    if state is None:
        evidence = "the host was not observed after the run"
    elif (split := partition(state)).how == "unknown":
        evidence = f"isolation is {split.words}"
    else:
        return
    yield _finding(
        results, "isolation_unverified", "note", "Isolation is not verified", [evidence],
        "Run `nearmetal apply`, which reads /sys/devices/system/cpu/isolated and the cpusets back.",
    )  # fmt: skip


def reboot_pending(results: HostResults, state: State | None) -> Iterator[Finding]:
    """Configured kernel arguments that are not in force."""
    configured, running = (state["boot"].get("configured"), state["kernel"].get("cmdline")) if state else (None, None)
    if configured is None or running is None:
        return
    waiting = [w for w in cmdline.split(configured) if w not in cmdline.split(running)]
    if waiting:
        yield _finding(
            results, "reboot_pending", "suspect", "Kernel arguments wait for a reboot",
            [f"configured and not in /proc/cmdline: {' '.join(waiting)}"], "Reboot the host, or run `nearmetal apply`.",
        )  # fmt: skip


def no_kvm(results: HostResults, state: State | None) -> Iterator[Finding]:
    """Guests without hardware virtualization."""
    if state is not None and state.get("kvm") is False:
        yield _finding(
            results, "no_kvm", "cause", "The host has no usable KVM", ["/dev/kvm is absent or cannot be opened"],
            "Enable VT-x or AMD-V in the firmware and load kvm_intel or kvm_amd.",
        )  # fmt: skip


def fabric_faults(results: HostResults, state: State | None) -> Iterator[Finding]:
    """Faults of ports, VFs, bonds and eswitches, as far as they stand between a VM and its storage."""
    level = {"high": "cause", "medium": "suspect", "low": "suspect", "note": "note"}
    for one in fabric_explain.state_findings(state) if state else ():
        rule, fix = "fabric_" + one["id"].replace("-", "_"), f"{one['fix']}. (Cause: {one['cause']}.)"
        yield _finding(results, rule, level[one["severity"]], one["title"], one["lines"], fix)


def failed_runs(results: HostResults, _state: State | None) -> Iterator[Finding]:
    """Runs that did not end well are kept out of the figures and told here."""
    failed = [r for r in results.runs if not r.ok]
    if failed:
        evidence = [
            f"{words.name(r.scenario)}, round {r.round}, {r.benchmark}: {r.error or 'failed, no message'}"
            for r in failed
        ]
        yield _finding(
            results, "failed_runs", "note", f"{words.count(len(failed), 'run')} failed", evidence,
            "They are left out of medians and ratios. Repeat the benchmark once the reason is gone.",
        )  # fmt: skip


def few_runs(results: HostResults, _state: State | None) -> Iterator[Finding]:
    """Sides with too few runs."""
    counts = {(r.scenario, r.benchmark): 0 for r in results.runs}
    for run in results.runs:
        counts[run.scenario, run.benchmark] += run.ok
    few = [f"{words.name(s)}, {b}: {words.count(n, 'run')}" for (s, b), n in counts.items() if n < FEWEST_RUNS]
    if few:
        yield _finding(
            results, "few_runs", "note", "Too few runs to conclude from", few,
            f"Repeat with at least {FEWEST_RUNS} runs a side.",
        )  # fmt: skip


def unequal_sides(results: HostResults, _state: State | None) -> Iterator[Finding]:
    """Bare metal had other CPUs than the VM."""
    metal = next((s for s in results.scenarios if s.number == 0), None)
    own = cpus(metal.host_cpus) if metal else frozenset()
    others = [(s, _cpus_of(s)) for s in results.scenarios if s.number]
    unequal = [(s, used) for s, used in others if own and used and used != own]
    if unequal:
        yield _finding(
            results, "unequal_sides", "suspect", "Bare metal and VM ran on different CPUs",
            [f"bare metal on {cpus_text(own)}, {words.name(s.name)} on {cpus_text(used)}" for s, used in unequal],
            "Run the bare-metal side on the CPUs that the VM is pinned to.",
        )  # fmt: skip


def _cpus_of(scenario: Scenario) -> frozenset[int]:
    return frozenset(p.host_cpu for p in scenario.pins)


def _finding(results: HostResults, rule: str, level: str, title: str, evidence: list[str], fix: str) -> Finding:
    return Finding(rule, level, results.host, "", title, tuple(evidence), fix, emulated=results.emulated)


RULES = (isolation_unverified, reboot_pending, no_kvm, fabric_faults, unequal_sides, failed_runs, few_runs)
"""Every rule about one host."""
