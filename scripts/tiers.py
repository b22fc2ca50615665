"""Run the parts of the test suite and say what ran: `tiers.py [PART...]`, all parts by default.

Every part runs, whether or not one before it failed. Those that need the virtual rack, whose nodes rarely
use two processors, run one after the other, and the others beside them at low priority; what these print
comes after it. A part is a list of checks (one command each)
or a pytest run. With CI=true nothing may be left out: a skipped test is a failure, except one that
says that the captured samples, which are not part of the project, are absent. The last line is
pytest's own kind of closing line; before it stands the plain `N passed, N failed`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
OUT = TOP / ".cache" / "test"
COLLECTION = TOP / ".cache" / "collections" / "ansible_collections" / "nearmetal" / "rack"
SAMPLES_ABSENT = ("captured samples are not at", "no sample ")
IN_CI = os.environ.get("CI") == "true"
ON_RACK = ("rack", "molecule")
INTO = "--into"


@dataclass
class Outcome:
    """Counts of one part; `skipped` holds (test, reason)."""

    passed: int = 0
    failed: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def fail(self, what: str) -> None:
        """Count one failure and remember its name."""
        self.failed += 1
        self.failures.append(what)


@dataclass(frozen=True)
class Tier:
    """A part of the suite: what it is for, how it runs, how many minutes it may take."""

    about: str
    run: Callable[[str, float], Outcome]
    minutes: float


def execute(argv: list[str], deadline: float, env: dict[str, str] | None = None) -> int:
    """Run a command in its own process group; 124 where it was still running at `deadline`."""
    process = subprocess.Popen(argv, cwd=TOP, env=env, stdin=subprocess.DEVNULL, start_new_session=True)
    give_way(process.pid)
    try:
        return process.wait(max(1.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        print(f"... out of time, ended: {' '.join(argv)}", flush=True)
        return 124
    finally:
        stop_group(process)


def give_way(pid: int) -> None:
    """Hand our own priority to a new session: Linux shares processors among sessions first (autogroups)."""
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(os.getpriority(os.PRIO_PROCESS, 0)))


def stop_group(process: subprocess.Popen[bytes]) -> None:
    """End a command that still runs, politely first, and what is left of its process group."""
    for sign, grace in ((signal.SIGINT, 30.0), (signal.SIGTERM, 10.0), (signal.SIGKILL, 5.0)):
        if process.poll() is not None:
            break
        os.killpg(process.pid, sign)
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)  # a shell's background jobs ignore SIGINT
        end = time.monotonic() + 3
        while time.monotonic() < end:
            os.killpg(process.pid, 0)
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)


def checks(commands: Callable[[], list[tuple[str, list[str]]]]) -> Callable[[str, float], Outcome]:
    """Make a part of commands, each of which passes with exit status 0."""

    def run(_name: str, deadline: float) -> Outcome:
        outcome = Outcome()
        for label, argv in commands():
            start = time.monotonic()
            print(f"--- {label}", flush=True)
            status = execute(argv, deadline)
            print(f"--- {label}: {'ok' if status == 0 else f'FAILED (exit status {status})'}"
                  f", {time.monotonic() - start:.1f} s", flush=True)
            if status == 0:
                outcome.passed += 1
            else:
                outcome.fail(label)
        return outcome

    return run


def pytest(folder: str, *more: str) -> Callable[[str, float], Outcome]:
    """Make a part of the tests in a folder; more: options of pytest."""

    def run(name: str, deadline: float) -> Outcome:
        report = OUT / f"{name}.xml"
        report.unlink(missing_ok=True)
        argv = [sys.executable, "-m", "pytest", "-q", "-rs", "--durations=20", "--durations-min=5", *more,
                f"--junitxml={report}", folder]
        status = execute(argv, deadline)
        outcome = Outcome()
        if report.is_file():
            read_junit(report, outcome)
        if status != 0 and not outcome.failed:
            why = {5: "no tests were found", 124: "out of time"}.get(status, f"pytest ended with {status}")
            outcome.fail(f"{folder}: {why}")
        return outcome

    return run


def read_junit(report: Path, outcome: Outcome) -> None:
    """Add the counts of a JUnit file."""
    for case in ET.parse(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            outcome.fail(name)
        elif skip is not None:
            outcome.skipped.append((name, skip.get("message") or "no reason given"))
        else:
            outcome.passed += 1


def lint_commands() -> list[tuple[str, list[str]]]:
    """List the checks that read the sources only."""
    here = Path(sys.executable).parent
    shell = [str(p.relative_to(TOP)) for p in sorted((TOP / "scripts").glob("*.sh"))]
    plugins = [str(COLLECTION / "plugins" / kind) for kind in typed_plugins()]
    return [
        ("ruff", [f"{here}/ruff", "check", "."]),
        ("mypy nearmetal", [f"{here}/mypy", "-p", "nearmetal"]),
        ("mypy plugins", [f"{here}/mypy", *plugins]),
        ("ansible-lint", [f"{here}/ansible-lint", "--offline", "-q"]),
        ("changelog fragments", [f"{here}/antsibull-changelog", "lint"]),
        ("collection docs", [f"{here}/antsibull-docs", "lint-collection-docs", "--plugin-docs",
                             "--validate-collection-refs", "self", "."]),
        ("docs/variables.md", [sys.executable, "scripts/variables.py", "--check"]),
        ("shellcheck", [f"{here}/shellcheck", "-x", ".ci/run", *shell]),
    ]


def typed_plugins() -> list[str]:
    """Name the folders of plugins that hold Python files."""
    return sorted(p.name for p in (TOP / "plugins").iterdir() if p.is_dir() and any(p.glob("**/*.py")))


TIERS = {
    "lint": Tier("sources: style, types, roles, documentation", checks(lint_commands), 10),
    "sanity": Tier("ansible-test sanity", checks(
        lambda: [("ansible-test sanity", [sys.executable, "scripts/sanity.py"])]), 20),
    "unit": Tier("pure code, captured trees", pytest("tests/unit", "-n", "auto", "-m", "not simulated"), 15),
    "simulated": Tier("the fabric on modelled hosts, by properties", pytest("tests/unit", "-n", "auto", "-m", "simulated"), 30),
    "integration": Tier("the command line over Ansible, on trees", pytest("tests/integration"), 20),
    "packaging": Tier("wheel in a clean environment, README", pytest("tests/packaging"), 10),
    "report": Tier("the report in a browser", pytest("tests/report"), 10),
    "rack": Tier("the whole loop on the virtual rack", pytest("tests/rack"), 60),
    "molecule": Tier("the roles on the virtual rack", checks(
        lambda: [("molecule", ["scripts/molecule.sh"])]), 30),
}


def forbidden_skips(outcome: Outcome) -> list[str]:
    """Name the tests that were left out although nothing may be."""
    return [f"skipped: {name}: {why}" for name, why in outcome.skipped
            if not any(words in why for words in SAMPLES_ABSENT)]


def run_tier(name: str) -> Outcome:
    """Run one part, between two lines that say so."""
    tier = TIERS[name]
    start = time.monotonic()
    print(f"=== {name}: {tier.about}", flush=True)
    outcome = tier.run(name, start + tier.minutes * 60)
    if IN_CI:
        for what in forbidden_skips(outcome):
            outcome.fail(what)
    outcome.seconds = time.monotonic() - start
    return outcome


@contextmanager
def shared_rack() -> Iterator[None]:
    """Give the parts that need a virtual rack the same new one: only the first of them must boot it."""
    if "NEARMETAL_RACK_STATE" in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="rack-", dir=OUT) as folder:
        os.environ["NEARMETAL_RACK_STATE"] = folder
        try:
            yield
        finally:
            del os.environ["NEARMETAL_RACK_STATE"]


def side_by_side(names: list[str]) -> dict[str, Outcome]:
    """Run the parts with a rack, and all others beside them; outcomes by name."""
    others = [name for name in names if name not in ON_RACK]
    said, result = OUT / "beside.log", OUT / "beside.json"
    result.unlink(missing_ok=True)
    print(f"beside what follows, printed after it: {', '.join(others)}", flush=True)
    with said.open("w") as file:
        argv = [sys.executable, __file__, INTO, str(result), *others]
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True)
        try:
            outcomes = {name: run_tier(name) for name in names if name in ON_RACK}
            process.wait()
        finally:
            stop_group(process)
    print(said.read_text(), flush=True)
    found = json.loads(result.read_text()) if result.is_file() else {}
    for name in others:
        outcomes[name] = Outcome(**found[name]) if name in found else Outcome(failed=1, failures=[f"{name}: it did not end"])
    return outcomes


def table(outcomes: dict[str, Outcome]) -> str:
    """Lay out one line for each part."""
    lines = [f"{'part':<13}{'result':<8}{'passed':>7}{'failed':>8}{'skipped':>9}{'time':>9}  what"]
    for name, tier in TIERS.items():
        done = outcomes.get(name)
        if done is None:
            lines.append(f"{name:<13}{'not run':<8}{'':>33}  {tier.about}")
            continue
        result = "FAILED" if done.failed else "ok"
        lines.append(f"{name:<13}{result:<8}{done.passed:>7}{done.failed:>8}{len(done.skipped):>9}"
                     f"{done.seconds:>7.1f} s  {tier.about}")
    return "\n".join(lines)


def closing(outcomes: dict[str, Outcome], seconds: float) -> str:
    """Write the two closing lines: the plain one, and one in pytest's form."""
    passed = sum(o.passed for o in outcomes.values())
    failed = sum(o.failed for o in outcomes.values())
    skipped = sum(len(o.skipped) for o in outcomes.values())
    words = [f"{failed} failed"] if failed else []
    words += [f"{passed} passed"] + ([f"{skipped} skipped"] if skipped else [])
    text = f" {', '.join(words)} in {seconds:.2f}s "
    return f"{passed} passed, {failed} failed\n{text:=^80}"


def main(names: list[str]) -> int:
    """Run the named parts; 0 where all passed."""
    start = time.monotonic()
    into = Path(names[1]) if names[:1] == [INTO] else None
    names = names[2:] if into else names
    unknown = [name for name in names if name not in TIERS]
    if unknown:
        print(f"no such part: {', '.join(unknown)}; there are: {', '.join(TIERS)}", file=sys.stderr)
        return 64
    OUT.mkdir(parents=True, exist_ok=True)
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    os.environ["ANSIBLE_COLLECTIONS_PATH"] = str(TOP / ".cache" / "collections")
    names = names or list(TIERS)
    if into:
        os.nice(10)
        done: dict[str, Outcome] = {}
        for name in names:
            done[name] = run_tier(name)
            into.write_text(json.dumps({key: asdict(outcome) for key, outcome in done.items()}))
        return 0
    with shared_rack():
        both = len({name in ON_RACK for name in names}) == 2
        outcomes = side_by_side(names) if both else {name: run_tier(name) for name in names}
    print()
    for outcome in outcomes.values():
        for test, why in outcome.skipped:
            print(f"SKIPPED {test}: {why}")
        for what in outcome.failures:
            print(f"FAILED {what}")
    print(table(outcomes))
    print(closing(outcomes, time.monotonic() - start), flush=True)
    return 1 if any(o.failed for o in outcomes.values()) else 0


if __name__ == "__main__":
    # A job in a script's background ignores Ctrl-C, and would hand that down to every test.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what was started is ended too
    sys.exit(main(sys.argv[1:]))
