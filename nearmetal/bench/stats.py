"""What may be concluded from a handful of runs: medians, spread, and ratios with their intervals. Pure.

Few runs and skewed times: medians, and the bootstrap instead of a normal distribution.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nearmetal.bench.results import HostResults, Run

if TYPE_CHECKING:
    import numpy

CONFIDENCE = 0.95
RESAMPLES = 2000
LEAST = 2
"""Runs of a side below which nothing is said about a ratio."""


@dataclass(frozen=True)
class Summary:
    """One side: figures of its good runs. low, high: quartiles."""

    n: int
    failed: int
    median: float | None
    low: float | None
    high: float | None

    @property
    def spread(self) -> float | None:
        """Interquartile range as a share of the median (0.03: 3 %)."""
        if not self.median or self.low is None or self.high is None:
            return None
        return (self.high - self.low) / self.median


@dataclass(frozen=True)
class Ratio:
    """How fast one side is against another: 1 is as fast, 0.9 is 10 % slower. low, high: 95 % interval."""

    value: float
    low: float
    high: float
    n: int  # runs of the side that has fewer

    @property
    def width(self) -> float:
        """Width of the interval."""
        return self.high - self.low

    @property
    def distinguishable(self) -> bool:
        """Whether the difference can be told from none: 1 lies outside the interval."""
        return not self.low <= 1 <= self.high


def summarize(runs: Sequence[Run]) -> Summary:
    """Figures of one side's runs; failed runs are counted, never averaged in."""
    values = [r.value for r in runs if r.ok]
    failed = len(runs) - len(values)
    if not values:
        return Summary(0, failed, None, None, None)
    if len(values) == 1:
        return Summary(1, failed, values[0], None, None)
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return Summary(len(values), failed, middle, low, high)


def ratio(side: Sequence[float], base: Sequence[float], higher_is_better: bool = True) -> Ratio | None:
    """Ratio of the medians, so that above 1 is always faster; None where there are too few figures."""
    top, bottom = (side, base) if higher_is_better else (base, side)
    n = min(len(side), len(base))
    if n < LEAST or min(*side, *base) <= 0:
        return None
    value = statistics.median(top) / statistics.median(bottom)
    if len({*top}) == 1 and len({*bottom}) == 1:  # nothing to resample: every draw is the same
        return Ratio(value, value, value, n)
    # scipy takes a second to load: only where a ratio is really computed
    import numpy
    import scipy.stats  # type: ignore[import-untyped]

    found = scipy.stats.bootstrap(
        (top, bottom), _median_ratio, n_resamples=RESAMPLES, confidence_level=CONFIDENCE, method="percentile",
        rng=numpy.random.default_rng(1), vectorized=True,
    )  # fmt: skip
    return Ratio(value, float(found.confidence_interval.low), float(found.confidence_interval.high), n)


def _median_ratio(top: numpy.ndarray, bottom: numpy.ndarray, axis: int) -> numpy.ndarray:
    import numpy

    result: numpy.ndarray = numpy.median(top, axis=axis) / numpy.median(bottom, axis=axis)
    return result


def by_side(results: HostResults, benchmark: str) -> Mapping[str, list[Run]]:
    """Runs of one benchmark, by scenario, in the order of the scenarios."""
    return {
        s.name: [r for r in results.runs if r.scenario == s.name and r.benchmark == benchmark]
        for s in results.scenarios
    }


def compare(side: Sequence[Run], base: Sequence[Run]) -> Ratio | None:
    """Ratio of two sides' good runs."""
    better = next((r.higher_is_better for r in (*side, *base)), True)
    return ratio([r.value for r in side if r.ok], [r.value for r in base if r.ok], better)
