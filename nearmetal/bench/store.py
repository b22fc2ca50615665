"""Benchmark runs on disk: state_dir()/bench/RUN/HOST.json."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from nearmetal.bench.results import HostResults
from nearmetal.errors import BAD_INTENT, NearmetalError
from nearmetal.paths import state_dir

LAST = "last"


def bench_dir() -> Path:
    """Folder of all benchmark runs."""
    return state_dir() / "bench"


def runs() -> list[str]:
    """Names of the runs that have results, oldest first."""
    folder = bench_dir()
    return sorted(p.name for p in folder.iterdir() if any(p.glob("*.json"))) if folder.is_dir() else []


def load(run: str) -> list[HostResults]:
    """Results of a run, by host; "last" is the newest. Exit 65 where there is none or a file is damaged."""
    known = runs()
    name = known[-1] if run == LAST and known else run
    if name not in known:
        hint = f"there are: {', '.join(known[-5:])}" if known else "there is none yet: nearmetal bench run makes one"
        raise NearmetalError(f"no benchmark run {run}; {hint}", BAD_INTENT)
    return [_read(path) for path in sorted((bench_dir() / name).glob("*.json"))]


def _read(path: Path) -> HostResults:
    try:
        return HostResults.model_validate_json(path.read_bytes())
    except ValidationError as err:
        first = err.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise NearmetalError(f"{path} is no benchmark result: {where}: {first['msg']}", BAD_INTENT) from None
