"""Why a VM is slower than bare metal, from the evidence that was gathered. Pure.

A finding never rests on speed alone: each names what was seen. Where a host is emulated, findings
show that the method sees a fault; how much it costs cannot be told there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from nearmetal.bench.results import HostResults
from nearmetal.report import rules_host, rules_placement
from nearmetal.report.finding import LEVELS, Case, Finding
from nearmetal.report.partition import node_of_cpu, siblings
from nearmetal.report.placement import placements

if TYPE_CHECKING:
    from ansible_collections.nearmetal.rack.plugins.module_utils.state import State

__all__ = ["Finding", "explain"]


def explain(results: Iterable[HostResults], states: Mapping[str, State]) -> list[Finding]:
    """Findings of every host, the weightiest first; within a level hosts and scenarios keep their order."""
    found: list[Finding] = []
    for one in results:
        state = states.get(one.host)
        for case in _cases(one, state):
            for rule in rules_placement.RULES:
                found += rule(case)
        for host_rule in rules_host.RULES:
            found += host_rule(one, state)
    return sorted(found, key=lambda f: (LEVELS.index(f.level), f.deliberate))


def _cases(results: HostResults, state: State | None) -> list[Case]:
    """The VM scenarios of a host (bare metal is what they are compared with)."""
    together = siblings(state) if state else {}
    nodes = node_of_cpu(state) if state else {}
    return [
        Case(results, p.scenario, p, [r for r in results.runs if r.scenario == p.scenario.name], state, together, nodes)
        for p in placements(results)
        if p.scenario.number != 0
    ]
