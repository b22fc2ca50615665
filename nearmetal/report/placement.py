"""Where vCPU threads, workers and memory really were during the benchmark, in words."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from nearmetal.bench.results import HostResults, Run, Scenario, Threads
from nearmetal.report import words
from nearmetal.report.partition import cpus, cpus_text


@dataclass(frozen=True)
class ThreadRow:
    """One thread over all runs of a scenario. switches: per second of wall time, the median."""

    name: str
    pinned: str  # where the scenario wants it; "" for threads that are not pinned
    allowed: str
    seen: str
    migrations: int | None  # the most in one run
    switches: float | None
    waiting: float | None  # runnable but waiting, percent of the time that it wanted to run; the most
    outside: str  # cpulist seen outside the pin


@dataclass(frozen=True)
class MemoryRow:
    """Memory on one node in pages of one size, the median over runs. share: percent of all."""

    node: int
    page: str
    bytes: str
    share: float
    expected: bool


@dataclass(frozen=True)
class ScenarioPlacement:
    """Evidence of one scenario on one host. verdict: "ok", "broken" or "unproven", then in words."""

    scenario: Scenario
    verdict: str
    words: str
    threads: list[ThreadRow]
    memory: list[MemoryRow]
    interrupts: list[tuple[str, float]]  # CPU of the scenario, interrupts a second, the median
    runs: int


def placements(results: HostResults) -> list[ScenarioPlacement]:
    """The evidence of every scenario of a host, in the order of the file."""
    return [_of(s, [r for r in results.runs if r.scenario == s.name]) for s in results.scenarios]


def _of(scenario: Scenario, runs: list[Run]) -> ScenarioPlacement:
    pins = {f"vcpu{p.vcpu}": p.host_cpu for p in scenario.pins}
    names = list(dict.fromkeys(t.name for r in runs for t in r.threads))
    threads = [_thread(name, pins.get(name), runs) for name in names]
    verdict, said = judge(scenario, threads)
    own = cpus(scenario.host_cpus) or frozenset(pins.values())
    memory = memory_rows(scenario, runs)
    return ScenarioPlacement(scenario, verdict, said, threads, memory, interrupts(own, runs), len(runs))


def _thread(name: str, pin: int | None, runs: list[Run]) -> ThreadRow:
    mine: list[tuple[Run, Threads]] = [(r, t) for r in runs for t in r.threads if t.name == name]
    seen = frozenset().union(*(cpus(t.seen) for _, t in mine))
    moves = [t.migrations for _, t in mine if t.migrations is not None]
    rates = [
        t.involuntary_switches / r.seconds
        for r, t in mine
        if t.involuntary_switches is not None and r.seconds > 0
    ]
    waits = [100 * t.wait_ms / (t.wait_ms + t.run_ms) for _, t in mine if t.wait_ms is not None and t.run_ms]
    return ThreadRow(
        name=name,
        pinned="" if pin is None else str(pin),
        allowed=" or ".join(sorted({t.allowed or "none" for _, t in mine})),
        seen=cpus_text(seen),
        migrations=max(moves) if moves else None,
        switches=statistics.median(rates) if rates else None,
        waiting=max(waits) if waits else None,
        outside="" if pin is None else cpus_text(seen - {pin}).replace("none", ""),
    )


def judge(scenario: Scenario, threads: list[ThreadRow]) -> tuple[str, str]:
    """Whether the placement was as intended, and how that is known."""
    strays = [f"{t.name} was seen on CPU {t.outside}, not only on {t.pinned}" for t in threads if t.outside]
    problems = [*scenario.placement_problems, *(s for s in strays if scenario.placement_ok is not False)]
    if scenario.placement_ok is False or strays:
        return "broken", "; ".join(problems) or "a thread was seen elsewhere than where it was pinned"
    if scenario.placement_ok is None:
        return "unproven", "; ".join(problems) or "no evidence was gathered, so nothing is claimed"
    pinned = sum(bool(t.pinned) for t in threads)
    if not pinned:
        return "ok", f"every sampled thread stayed on the CPUs allowed to this side ({scenario.host_cpus or 'any'})"
    every = {1: "the vCPU thread was", 2: "both vCPU threads were"}.get(pinned, f"all {pinned} vCPU threads were")
    return "ok", f"{every} seen only on the CPU that each is pinned to"


def memory_rows(scenario: Scenario, runs: list[Run]) -> list[MemoryRow]:
    """Memory by node and page size, the median of the runs that have the evidence."""
    found: dict[tuple[int, int], list[int]] = {}
    for run in runs:
        for part in run.memory:
            found.setdefault((part.node, part.page_kb), []).append(part.bytes)
    medians = {key: statistics.median(values) for key, values in found.items()}
    whole = sum(medians.values())
    return [
        MemoryRow(
            node=node,
            page=words.size(page_kb * 1024),
            bytes=words.size(amount),
            share=100 * amount / whole if whole else 0.0,
            expected=not scenario.memory_nodes or node in scenario.memory_nodes,
        )
        for (node, page_kb), amount in sorted(medians.items())
    ]


def interrupts(own: frozenset[int], runs: list[Run]) -> list[tuple[str, float]]:
    """Interrupts per second on each CPU of a side, the median of its runs."""
    rates: dict[int, list[float]] = {}
    for run in runs:
        for cpu, number in run.interrupts.items():
            if run.seconds > 0 and cpu.isdecimal() and (not own or int(cpu) in own):
                rates.setdefault(int(cpu), []).append(number / run.seconds)
    return [(str(cpu), statistics.median(values)) for cpu, values in sorted(rates.items())]


@dataclass(frozen=True)
class PinCell:
    """A host CPU in the picture of a scenario. guest: index of the guest core, -1 where none."""

    cpu: int
    guest: int
    letter: str
    label: str
    title: str


@dataclass(frozen=True)
class PinCore:
    """A host core that a scenario uses. split: it holds threads of different guest cores."""

    node: int | None
    cells: list[PinCell]
    split: bool


def pin_picture(scenario: Scenario, together: dict[int, frozenset[int]], nodes: dict[int, int | None]) -> list[PinCore]:
    """The host cores that a scenario uses, with the guest core that each sibling serves.

    together: siblings of each CPU; nodes: its NUMA node; both empty where no state is known.
    """
    order = list(dict.fromkeys((p.guest_socket, p.guest_core) for p in scenario.pins))
    by_cpu = {p.host_cpu: p for p in scenario.pins}
    cores = sorted({together.get(cpu, frozenset({cpu})) for cpu in by_cpu}, key=min)
    emulator = cpus(scenario.emulator_cpus)
    out = []
    for core in cores:
        cells = []
        for cpu in sorted(core):
            pin = by_cpu.get(cpu)
            guest = order.index((pin.guest_socket, pin.guest_core)) if pin else -1
            said = (
                f"vCPU {pin.vcpu}: guest socket {pin.guest_socket}, core {pin.guest_core}, thread {pin.guest_thread}"
                if pin
                else "emulator threads" if cpu in emulator else "left idle"
            )
            letter = chr(ord("A") + guest % 26) if pin else ""
            label = f"v{pin.vcpu}" if pin else "E" if cpu in emulator else "idle"
            cells.append(PinCell(cpu, guest, letter, label, f"CPU {cpu}: {said}"))
        used = {c.guest for c in cells if c.guest >= 0}
        out.append(PinCore(nodes.get(cells[0].cpu), cells, len(used) > 1))
    return out
