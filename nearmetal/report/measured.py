"""Figures of a benchmark run: every side of every host, and their ratios."""

from __future__ import annotations

from dataclasses import dataclass

from nearmetal.bench import stats
from nearmetal.bench.results import HostResults, Run, Scenario
from nearmetal.report import words


@dataclass(frozen=True)
class Side:
    """One scenario of one benchmark on one host. low, high: the quartiles; spread: percent of the median."""

    name: str  # as shown
    scenario: Scenario
    bare: bool
    runs: list[Run]
    n: int
    failed: int
    median: float | None
    low: float | None
    high: float | None
    spread: float | None


@dataclass(frozen=True)
class Pair:
    """How fast one side is compared with another: 1 is as fast, 0.9 is 10 % slower.

    low, high: 95 % confidence interval; None, like ratio, where the runs do not give one.
    differs: whether the difference can be told from none.
    """

    host: str
    benchmark: str
    side: str
    base: str
    ratio: float | None
    low: float | None
    high: float | None
    n: int
    differs: bool
    words: str


@dataclass(frozen=True)
class Figures:
    """One benchmark on one host."""

    host: str
    benchmark: str
    unit: str
    higher_is_better: bool
    sides: list[Side]
    pairs: list[Pair]  # with bare metal first, then with the first VM scenario
    emulated: bool


def figures(results: HostResults) -> list[Figures]:
    """Every benchmark of a host, in the order of the file."""
    return [_of(results, name) for name in dict.fromkeys(r.benchmark for r in results.runs)]


def _of(results: HostResults, benchmark: str) -> Figures:
    runs = [r for r in results.runs if r.benchmark == benchmark]
    scenarios = sorted(results.scenarios, key=lambda s: (s.number != 0, s.number))
    sides = [_side(s, [r for r in runs if r.scenario == s.name]) for s in scenarios]
    sides = [s for s in sides if s.runs]
    pairs = []
    for base in [*[s for s in sides if s.bare][:1], *[s for s in sides if not s.bare][:1]]:
        others = [s for s in sides if s is not base and not s.bare]
        pairs += [_pair(results.host, benchmark, side, base) for side in others]
    return Figures(results.host, benchmark, runs[0].unit, runs[0].higher_is_better, sides, pairs, results.emulated)


def _side(scenario: Scenario, runs: list[Run]) -> Side:
    found = stats.summarize(runs)
    spread = None if found.spread is None else 100 * found.spread
    return Side(
        words.name(scenario.name), scenario, scenario.number == 0, runs, found.n, found.failed,
        found.median, found.low, found.high, spread,
    )  # fmt: skip


def _pair(host: str, benchmark: str, side: Side, base: Side) -> Pair:
    names = (side.scenario.name, base.scenario.name)
    found = stats.compare(side.runs, base.runs)
    if found is None:
        n = min(side.n, base.n)
        return Pair(host, benchmark, *names, None, None, None, n, False, "too few good runs for a ratio")
    said = _say(found)
    return Pair(host, benchmark, *names, found.value, found.low, found.high, found.n, found.distinguishable, said)


def _say(found: stats.Ratio) -> str:
    interval = f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})"
    if not found.distinguishable:
        return f"{interval}: not distinguishable from as fast"
    return f"{interval}: {abs(100 * (found.value - 1)):.1f} % {'faster' if found.value > 1 else 'slower'}"
