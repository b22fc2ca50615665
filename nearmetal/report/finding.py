"""What explains a shortfall: the shape of a finding, and what a rule looks at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nearmetal.bench.results import HostResults, Run, Scenario
from nearmetal.report.placement import ScenarioPlacement

if TYPE_CHECKING:
    from ansible_collections.nearmetal.rack.plugins.module_utils.state import State

LEVELS = ("cause", "suspect", "note")
"""cause: known to slow VMs; suspect: may; note: limits what can be concluded."""

STUDY = "in a public study of eight topologies with the NAS Parallel Benchmarks"


@dataclass(frozen=True)
class Finding:
    """One thing that explains why a VM is slower than bare metal, or why that cannot be told.

    scenario: "" where it concerns the whole host. cost: what others measured, "" where nobody did.
    deliberate: the scenario is built this way on purpose. emulated: found on hardware on which speed
    says nothing; the finding is then about the method only.
    """

    rule: str
    level: str
    host: str
    scenario: str
    title: str
    evidence: tuple[str, ...]
    fix: str
    cost: str = ""
    deliberate: bool = False
    emulated: bool = False


@dataclass(frozen=True)
class Case:
    """One VM scenario on one host, as a rule sees it."""

    results: HostResults
    scenario: Scenario
    place: ScenarioPlacement
    runs: list[Run]
    state: State | None
    together: dict[int, frozenset[int]]  # siblings of each CPU; empty without state
    nodes: dict[int, int | None]  # node of each CPU; empty without state

    def finding(self, rule: str, level: str, title: str, evidence: list[str], fix: str, cost: str = "", number: int = -1) -> Finding:  # noqa: E501
        """A finding about this case; `number`: the scenario that is built this way on purpose."""
        return Finding(
            rule=rule,
            level=level,
            host=self.results.host,
            scenario=self.scenario.name,
            title=title,
            evidence=tuple(evidence),
            fix=fix,
            cost=cost,
            deliberate=self.scenario.number == number,
            emulated=self.results.emulated,
        )
