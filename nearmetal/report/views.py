"""What the page says about the rack as a whole and about each host."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import nearmetal
from nearmetal.bench.results import HostResults, Scenario
from nearmetal.report import words
from nearmetal.report.changes import OUTCOMES, HostChanges
from nearmetal.report.cmdline import Word, compare
from nearmetal.report.collect import Collected, text, timestamp
from nearmetal.report.fabric_svg import Drawing, drawing
from nearmetal.report.hostmap import Map, host_map
from nearmetal.report.measured import Figures, Pair
from nearmetal.report.partition import unread
from nearmetal.report.placement import placements

if TYPE_CHECKING:
    from ansible_collections.nearmetal.rack.plugins.module_utils.state import State

QEMU_VENDORS = ("0x1b36", "0x1234", "0x1af4")
"""PCI vendors of devices that only virtual machines have: Red Hat (QEMU), Bochs, virtio."""

UNREACHED = ("unreachable", "failed", "problems")
"""Status of a host in a plan that stops it."""


@dataclass(frozen=True)
class HostView:
    """One host on the page. tone: "ok", "warn" or "bad"; said: its result in words."""

    name: str
    anchor: str
    tone: str
    said: str
    state: State | None
    when: str  # "after the run", "before the run"
    picture: Map | None
    drawn: Scenario | None  # whose pins are in the picture
    fabric: Drawing | None
    facts: list[tuple[str, str]]
    changes: HostChanges
    cmdline: list[Word]
    cmdline_note: str
    bench: HostResults | None
    pages: str  # all huge pages: "384 MiB"; "" for none
    placement: str  # "as intended in 3 of 3 scenarios"; "" where no benchmark ran


@dataclass(frozen=True)
class Summary:
    """The head of the page."""

    title: str
    subtitle: str
    tone: str
    verdict: str
    figures: list[tuple[str, str, str]]  # value, what it counts, tone
    versions: list[tuple[str, str]]
    emulated: list[str]  # reasons; empty on real hardware
    emulated_where: str  # "": everywhere; else "on 2 of 8 hosts"
    problems: list[tuple[str, str]] = field(default_factory=list)  # host, what


def host_views(found: Collected, changes: dict[str, HostChanges]) -> list[HostView]:
    """Every host, in natural order of names."""
    return [_host(found, name, index, changes[name]) for index, name in enumerate(found.hosts, 1)]


def _host(found: Collected, name: str, index: int, changes: HostChanges) -> HostView:
    run = found.run
    before, after = (run.before.get(name), run.after.get(name)) if run else (None, None)
    state = after or before
    bench = found.bench.hosts.get(name) if found.bench else None
    drawn = next((s for s in sorted(bench.scenarios, key=lambda s: s.number) if s.pins), None) if bench else None
    tone, said = _result(changes, run.info.get("hosts") if run else None, name)
    return HostView(
        name=name,
        anchor=f"host-{index}",
        tone=tone,
        said=said,
        state=state,
        when="after the run" if after else "before the run",
        picture=host_map(state, drawn) if state else None,
        drawn=drawn,
        fabric=drawing(state, len(found.hosts)) if state else None,
        facts=facts(state) if state else [],
        changes=changes,
        cmdline=compare(_running(before), _running(after)) if before and after else compare(_running(state), None),
        cmdline_note=_cmdline_note(before, after),
        bench=bench,
        pages=_pages(state) if state else "",
        placement=_placement(bench) if bench else "",
    )


def _pages(state: State) -> str:
    whole = sum(pool["total"] * pool["size_kb"] * words.KIB for pool in state["memory"]["hugepages"])
    return words.size(whole) if whole else "not known" if unread(state, "memory.hugepages") else ""


def _placement(bench: HostResults) -> str:
    verdicts = [place.verdict for place in placements(bench)]
    return f"as intended in {verdicts.count('ok')} of {words.count(len(verdicts), 'scenario')}"


def _running(state: State | None) -> str | None:
    return state["kernel"].get("cmdline") if state else None


def _cmdline_note(before: State | None, after: State | None) -> str:
    """What the comparison of command lines shows, in words."""
    last = after or before
    if last is None:
        return ""
    configured, running = last["boot"].get("configured"), _running(last)
    if after and configured is not None and running is not None:
        waiting = [w.text for w in compare(running, configured) if w.change == "new"]
        if waiting:
            return "Configured and not in force yet: " + " ".join(waiting)
    if not after:
        return "Only seen before the run."
    if before and _running(before) == running:
        return "The same before and after the run."
    return "Words of /proc/cmdline before and after the run."


def _result(changes: HostChanges, results: object, name: str) -> tuple[str, str]:
    """Tone and words of what became of a host."""
    told = text(results.get(name)) if isinstance(results, dict) else ""
    if told in ("pending", "reboot pending") and not changes.problems:
        return "warn", {"pending": "not finished"}.get(told, told)
    if changes.problems or changes.status in UNREACHED or told == "failed":
        return "bad", {"unreachable": "not reachable", "problems": "has problems"}.get(changes.status, "failed")
    if any(OUTCOMES[s.outcome][0] == "bad" for s in changes.steps):
        return "bad", "a step is not in force"
    open_steps = len(changes.steps) - changes.verified
    if open_steps:
        return "warn", f"{words.count(open_steps, 'step')} not verified"
    if changes.steps:
        return "ok", "changed and verified"
    return ("ok", "as intended") if changes.status == "ok" else ("warn", "not part of the run")


def facts(state: State) -> list[tuple[str, str]]:
    """What a host is, in a few lines. Values that could not be read say so."""
    cpu, memory, iommu, confined = state["cpu"], state["memory"], state["iommu"], state["confinement"]
    kinds = Counter(core["kind"] for core in cpu["cores"] if core["kind"])
    hybrid = ", ".join(f"{n} {kind} cores" for kind, n in kinds.items())
    smt = f"{cpu['threads_per_core']} threads a core" + (f", SMT {cpu['smt']}" if cpu["smt"] else "")
    kinds_of = sorted(iommu["types"].items())
    types = f", all {kinds_of[0][0]}" if len(kinds_of) == 1 else "".join(f", {n} {kind}" for kind, n in kinds_of)
    units = f"{words.listed(iommu['units'], 4) or 'none in use'}; {words.count(iommu['groups'], 'group')}{types}"
    system = [state["os"]["name"], state["kernel"]["release"] and f"kernel {state['kernel']['release']}", cpu["arch"]]
    kvm = {True: "usable", False: "not usable"}.get(bool(state["kvm"]), "") if state["kvm"] is not None else "not known"
    return [
        ("System", ", ".join(filter(None, system)) or "not known"),
        ("Processor", " · ".join(filter(None, [cpu["model"] or cpu["vendor"], hybrid]))),
        ("Topology", f"{words.count(cpu['sockets'], 'socket')}, {words.count(len(cpu['nodes']), 'NUMA node')}, "
                     f"{words.count(len(cpu['cores']), 'core')}, {smt}"),
        ("Memory", words.size(memory["total_bytes"])),
        ("IOMMU", "not known" if unread(state, "iommu") else units),
        ("KVM", kvm),
        ("Interrupts", f"default on CPUs {confined['default_irq_affinity'] or 'not known'}; "
                       f"irqbalance {confined['irqbalance'] or 'not known'}"),
        ("Boot loader", (state["boot"]["loader"] or "not known")
         + (f", sealed: {state['boot']['sealed']}" if state["boot"]["sealed"] else "")),
    ]  # fmt: skip


def emulation(found: Collected) -> dict[str, list[str]]:
    """Why figures of this rack mean nothing: each reason once, with its hosts. Empty on real hardware."""
    reasons: dict[str, list[str]] = {}
    for name in found.hosts:
        bench = found.bench.hosts.get(name) if found.bench else None
        state = found.states.get(name)
        why = (bench.emulation_reason or "its benchmark says so") if bench and bench.emulated else ""
        why = why or (_virtual(state) if state and not bench else "")
        if why:
            reasons.setdefault(why, []).append(name)
    return reasons


def _virtual(state: State) -> str:
    """How a host that was not benchmarked shows that it is a virtual machine; "" where it does not."""
    model = state["cpu"]["model"]
    if "QEMU" in model or "TCG" in model:
        return f"the processor calls itself {model}"
    devices = [f["address"] for f in state["pci"] if f["vendor"].lower() in QEMU_VENDORS]
    return f"it has PCI devices of a virtual machine ({words.listed(devices, 2)})" if devices else ""


def summary(found: Collected, hosts: list[HostView]) -> Summary:
    """The head of the page."""
    run = found.run
    steps = sum(len(h.changes.steps) for h in hosts)
    verified = sum(h.changes.verified for h in hosts)
    changed = sum(any(s.outcome != "open" for s in h.changes.steps) for h in hosts)
    reboots = sum(h.changes.reboots for h in hosts)
    problems = [(h.name, p) for h in hosts for p in h.changes.problems]
    bad = [h.name for h in hosts if h.tone == "bad"]
    tone, verdict = _verdict(found, hosts, bad, steps, verified, reboots)
    virtual = emulation(found)
    some = sum(map(len, virtual.values()))
    start, end = (timestamp(run.info.get("started")), timestamp(run.info.get("ended"))) if run else (None, None)
    took = end - start if start is not None and end is not None else None
    figures = [
        (str(len(hosts)), _plural(len(hosts), "host"), ""),
        (str(changed), "changed", ""),
        (str(reboots), _plural(reboots, "reboot"), ""),
        (f"{verified} of {steps}", "steps verified", "ok" if verified == steps else "warn"),
        (str(len(problems)), _plural(len(problems), "problem"), "bad" if problems else ""),
        (words.duration(took), "time of the run", ""),
    ] if run else [(str(len(hosts)), _plural(len(hosts), "host"), "")]  # fmt: skip
    return Summary(
        title=text(run.info.get("inventory") or run.plan.get("inventory")) if run else "benchmark",
        subtitle=_subtitle(found, start),
        tone=tone,
        verdict=verdict,
        figures=figures,
        versions=versions(found),
        emulated=[f"{words.listed(names)}: {why}" for why, names in virtual.items()],
        emulated_where="" if some == len(hosts) else f"on {some} of {words.count(len(hosts), 'host')}",
        problems=problems,
    )


def _plural(how_many: int, what: str) -> str:
    return what if how_many == 1 else what + "s"


def _subtitle(found: Collected, start: float | None) -> str:
    said = [f"run {found.run.id}, {text(found.run.info.get('status')) or 'status not known'}"] if found.run else []
    said += [words.moment(start)] if start is not None else []
    said += [f"benchmark {found.bench.id}"] if found.bench else []
    return " · ".join(said)


def _verdict(
    found: Collected, hosts: list[HostView], bad: list[str], steps: int, verified: int, reboots: int
) -> tuple[str, str]:
    """The result in one or two sentences."""
    if not found.run:
        return "warn", "No apply run was found: nothing is known about configuration."
    again = ""
    if found.later and all(text(r.info.get("status")) == "ok" for r in found.later):
        again = f" A later run ({found.later[-1].id}) found nothing to change."
    if bad:
        return "bad", f"{len(bad)} of {words.count(len(hosts), 'host')} did not get there: {words.listed(bad)}."
    status = text(found.run.info.get("status"))
    if status not in ("ok", ""):
        return "warn", f"The run is not complete: it is {status}. {verified} of {steps} steps were verified."
    if verified < steps:
        return "warn", f"{steps - verified} of {steps} steps were done and not read back; they count as not verified."
    if not steps:
        return "ok", f"All {words.count(len(hosts), 'host')} were as intended; nothing had to change." + again
    each = f" with {words.count(reboots, 'reboot')}" if reboots else " without a reboot"
    return "ok", (
        f"{'Both hosts are' if len(hosts) == 2 else f'All {len(hosts)} hosts are' if len(hosts) > 1 else 'The host is'}"
        f" as intended: all {steps} steps were carried out{each} and read back from the hosts.{again}"
    )


def versions(found: Collected) -> list[tuple[str, str]]:
    """Software that the result depends on; several versions on the rack are all named."""
    seen: dict[str, list[str]] = {"nearmetal": [nearmetal.__version__], "system": [], "kernel": []}
    for state in found.states.values():
        seen["system"].append(state["os"]["name"])
        seen["kernel"].append(state["kernel"]["release"])
    for bench in found.bench.hosts.values() if found.bench else ():
        for label, value in (
            ("kernel", bench.kernel), ("QEMU", bench.qemu), ("libvirt", bench.libvirt),
            ("benchmark", bench.benchmark_source),
        ):  # fmt: skip
            seen.setdefault(label, []).append(value)
    return [(label, ", ".join(sorted(set(filter(None, values))))) for label, values in seen.items() if any(values)]


def ratio_groups(every: list[Figures]) -> list[tuple[str, str, list[Pair]]]:
    """(benchmark, base, pairs of all hosts) for the comparison with bare metal, else with the first scenario."""
    groups: dict[str, list[Pair]] = {}
    bases: dict[str, str] = {}
    for figures in every:
        if figures.pairs:
            base = bases.setdefault(figures.benchmark, figures.pairs[0].base)
            groups.setdefault(figures.benchmark, []).extend(p for p in figures.pairs if p.base == base)
    return [
        (name, bases[name], sorted(pairs, key=lambda p: [q.side for q in pairs].index(p.side)))
        for name, pairs in groups.items()
    ]
