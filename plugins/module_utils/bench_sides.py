# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sides of the comparison at work: one run in a guest, one run on bare metal."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Protocol, Sequence, Tuple

from .bench_evidence import Watch, memory_document, placement_problems, worker_problems
from .bench_guest import Guest
from .bench_scenarios import BenchError, Side
from .bench_stress import UNIT, Metric, command, parse_metrics
from .host import Host, HostError

SLICE = "machine.slice"
"""Bare-metal workers run where guests run: the session that started us may be confined to other CPUs."""

PATIENCE_S = 120
"""How long a program may take to start and end beside its own run time; emulated hosts need most of it."""


class Load(NamedTuple):
    """The benchmark program: the same on every side."""

    stressor: str
    extra: Tuple[str, ...]
    workers: int
    seconds: int

    @property
    def title(self) -> str:
        """Name of the benchmark in a result file."""
        return "stress-ng %s" % self.stressor

    @property
    def sample_every(self) -> float:
        """Seconds between two looks at the threads: about twenty in a run, at most one in 0.4 s."""
        return max(0.4, self.seconds / 20)


class Outcome(NamedTuple):
    """What one run gave."""

    value: float
    seconds: float
    evidence: Mapping[str, Any]


class Contestant(Protocol):
    """One side, ready to run."""

    side: Side

    def run(self, load: Load) -> Outcome:
        """Run once. Raises BenchError (the side is lost) or ValueError (this run failed)."""

    def problems(self, run: Mapping[str, Any]) -> List[str]:
        """What was not where it belongs in that run."""

    def close(self) -> None:
        """Let go."""


class GuestSide:
    """A booted guest."""

    def __init__(self, host: Host, side: Side, guest: Guest) -> None:
        self.host, self.side, self.guest = host, side, guest

    def run(self, load: Load) -> Outcome:
        """See Contestant."""
        threads = {name: (self.guest.process, tid) for name, tid in self.guest.threads.items()}
        call = command(load.stressor, load.workers, load.seconds, load.extra)
        with self.guest.awake():
            watch = Watch(self.host, from_start=False)
            watch.look(threads)
            answer = self.guest.run(
                call, load.seconds + PATIENCE_S, lambda: watch.look(threads), load.sample_every
            )
            evidence = watch.document(self.side.host_cpus)
        watch.look_at_memory([self.guest.process], bound_only=True)
        evidence["memory"] = memory_document(watch.memory)
        metric = parse_metrics(str(answer["said"]).replace("|", "\n"), load.stressor)
        return Outcome(metric.rate, answer["end"] - answer["start"], evidence)

    def problems(self, run: Mapping[str, Any]) -> List[str]:
        """See Contestant."""
        return placement_problems(self.side, run)

    def close(self) -> None:
        """See Contestant."""
        self.guest.close()


class BareMetalSide:
    """The host itself: one single-worker process to a CPU, all started together.

    One process with all workers would leave them on one CPU where the CPUs are isolated, for the
    kernel balances nothing there.
    """

    def __init__(self, host: Host, side: Side, cpus: Sequence[int], folder: str) -> None:
        self.host, self.side, self.cpus, self.folder = host, side, tuple(cpus), folder

    def run(self, load: Load) -> Outcome:
        """See Contestant."""
        watch = Watch(self.host, from_start=True)
        started = time.monotonic()
        process = subprocess.Popen(
            worker_shell(load, self.cpus, self.folder, _in_slice()), stdout=subprocess.PIPE, universal_newlines=True,
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            parents = [int(process.stdout.readline() or 0) for _cpu in self.cpus]
            self._follow(process, parents, load, watch)
        except BaseException:
            _end_session(process.pid)
            raise
        seconds = time.monotonic() - started
        metrics = [self._metric(load, worker) for worker in range(len(self.cpus))]
        return Outcome(sum(m.rate for m in metrics), seconds, watch.document(self.side.host_cpus))

    def _follow(
        self, process: "subprocess.Popen[str]", parents: Sequence[int], load: Load, watch: Watch
    ) -> None:
        end = time.monotonic() + load.seconds + PATIENCE_S
        while process.poll() is None:
            if time.monotonic() > end:
                raise BenchError(
                    "stress-ng on bare metal did not end within %d s" % (load.seconds + PATIENCE_S)
                )
            workers = {i: pid for i, parent in enumerate(parents) for pid in _workers(self.host, parent)}
            watch.look({"worker%d" % i: (pid, pid) for i, pid in workers.items()})
            watch.look_at_memory(workers.values(), bound_only=False)
            time.sleep(load.sample_every)

    def _metric(self, load: Load, worker: int) -> Metric:
        with open(_output(self.folder, worker), encoding="utf-8", errors="replace") as f:
            return parse_metrics(f.read(), load.stressor)

    def problems(self, run: Mapping[str, Any]) -> List[str]:
        """See Contestant."""
        return worker_problems(run, self.cpus)

    def close(self) -> None:
        """See Contestant."""


def worker_shell(load: Load, cpus: Sequence[int], folder: str, in_slice: bool) -> List[str]:
    """One command that starts all workers, prints the PID of each, and waits for them. Pure."""
    one = " ".join(shlex.quote(w) for w in command(load.stressor, 1, load.seconds, load.extra))
    parts = [
        "taskset -c %d %s >%s 2>&1 & echo $!" % (cpu, one, shlex.quote(_output(folder, worker)))
        for worker, cpu in enumerate(cpus)
    ]
    shell = ["sh", "-c", "cd %s; %s; wait" % (shlex.quote(folder), "; ".join(parts))]
    scope = ["systemd-run", "--scope", "--quiet", "--collect", "--slice=%s" % SLICE]
    return scope + shell if in_slice else shell


def _output(folder: str, worker: int) -> str:
    return os.path.join(folder, "worker%d.out" % worker)


def _in_slice() -> bool:
    return os.path.isdir("/run/systemd/system") and os.geteuid() == 0


def _workers(host: Host, parent: int) -> List[int]:
    """Stressor processes of a stress-ng; it names them stress-ng-STRESSOR."""
    try:
        children = host.get("/proc/%d/task/%d/children" % (parent, parent)).split()
        return [int(pid) for pid in children if host.get("/proc/%s/comm" % pid).startswith("stress-ng-")]
    except HostError:
        return []  # it ended between two reads


def _end_session(leader: int) -> None:
    """Kill everything that the worker shell started."""
    with contextlib.suppress(OSError):
        os.killpg(leader, signal.SIGKILL)


def run_document(
    load: Load, side: Side, position: Tuple[int, int], outcome: Optional[Outcome], seconds: float, error: str
) -> Dict[str, Any]:
    """The document `Run` of a result file. position: (round, place in it)."""
    evidence = outcome.evidence if outcome else {"threads": [], "memory": [], "interrupts": {}}
    return {
        "scenario": side.name, "round": position[0], "position": position[1], "benchmark": load.title,
        "value": outcome.value if outcome else 0.0, "unit": UNIT, "higher_is_better": True,
        "seconds": round(outcome.seconds if outcome else seconds, 3), "ok": outcome is not None, "error": error,
        **evidence,
    }  # fmt: skip
