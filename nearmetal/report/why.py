"""Findings as the page shows them: by scenario, the same finding on several hosts once."""

from __future__ import annotations

from dataclasses import dataclass

from nearmetal.report import words
from nearmetal.report.collect import natural
from nearmetal.report.finding import Finding
from nearmetal.report.measured import Figures, Pair

LEVEL_WORDS = {
    ("cause", False): "likely cause",
    ("suspect", False): "may add to it",
    ("note", False): "limits the conclusion",
    ("cause", True): "would slow a VM on real hardware",
    ("suspect", True): "could slow a VM on real hardware",
    ("note", True): "limits the conclusion",
}
"""Words for (level, emulated)."""


@dataclass(frozen=True)
class Shared:
    """A finding and the hosts that have it. evidence: the lines, with the host where they differ."""

    finding: Finding
    level: str
    hosts: list[str]
    evidence: list[str]


@dataclass(frozen=True)
class Section:
    """What explains one scenario; name "" holds what concerns whole hosts."""

    name: str
    measured: list[str]
    conclusion: str
    findings: list[Shared]


def sections(findings: list[Finding], every: list[Figures]) -> list[Section]:
    """A section per VM scenario, in the order of the scenarios, then one for the hosts."""
    names = list(dict.fromkeys(s.scenario.name for f in every for s in f.sides if not s.bare))
    out = [_section(name, [f for f in findings if f.scenario == name], every) for name in names]
    rest = [f for f in findings if f.scenario not in names]
    return [*out, Section("", [], "", share(rest))] if rest else out


def _section(name: str, findings: list[Finding], every: list[Figures]) -> Section:
    pairs = [(f, p) for f in every for p in f.pairs if p.side == name and p.base == f.pairs[0].base]
    emulated = any(f.emulated for f in every)
    slower = [p.host for _, p in pairs if p.differs and p.ratio is not None and p.ratio < 1]
    causes = [f for f in findings if f.level != "note"]
    if emulated:
        conclusion = (
            "A fault of placement or topology was seen; what it costs cannot be told on emulated hardware."
            if causes
            else "No fault of placement or topology was seen. Speed cannot be judged on emulated hardware."
        )
    elif causes and slower:
        conclusion = f"Slower on {words.count(len(set(slower)), 'host')}; the findings below explain it."
    elif slower:
        conclusion = f"Slower on {words.listed(sorted(set(slower), key=natural))}; nothing in the evidence explains it."
    elif causes:
        conclusion = "Not measurably slower, although there are findings."
    else:
        conclusion = "Not measurably slower, and no fault was found."
    return Section(name, [] if emulated else _measured(pairs), conclusion, share(findings))


def _measured(pairs: list[tuple[Figures, Pair]]) -> list[str]:
    """The range of ratios over hosts, one line per benchmark."""
    out = []
    for benchmark in dict.fromkeys(f.benchmark for f, _ in pairs):
        own = [p for f, p in pairs if f.benchmark == benchmark]
        known = sorted(p.ratio for p in own if p.ratio is not None)
        if known:
            span = f"{known[0]:.3f}" if len(known) == 1 else f"{known[0]:.3f} to {known[-1]:.3f}"
            on = words.count(len(known), "host")
            out.append(f"{benchmark}: {span} times as fast as {words.name(own[0].base)} ({on})")
    return out


def share(findings: list[Finding]) -> list[Shared]:
    """The same finding (rule, scenario, level, title) of several hosts, put together."""
    groups: dict[tuple[str, str, str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.rule, finding.scenario, finding.level, finding.title), []).append(finding)
    out = []
    for same in groups.values():
        alike = len({f.evidence for f in same}) == 1
        lines = list(same[0].evidence) if alike else [f"{f.host}: {line}" for f in same for line in f.evidence]
        level = LEVEL_WORDS[same[0].level, same[0].emulated]
        out.append(Shared(same[0], level, sorted({f.host for f in same}, key=natural), lines))
    return out
