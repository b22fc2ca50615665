# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole benchmark of one host: check, boot every guest once, run in rounds, clean up."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

from . import bench_initramfs, bench_needs
from .bench_domain import Files, Guest, console_device, domain_name, domain_xml
from .bench_evidence import NO_MIGRATIONS, view_problems
from .bench_guest import Guest as Booted
from .bench_guest import Virsh, boot, remove_leftovers
from .bench_rounds import enough, order
from .bench_scenarios import (
    BARE_METAL,
    BenchError,
    Layout,
    NotApplicable,
    Side,
    isolated_cpus,
    layout,
    side,
    worker_cpus,
)
from .bench_sides import BareMetalSide, Contestant, GuestSide, Load, run_document
from .host import Host

FOLDER = "/var/lib/nearmetal/bench"
LOCK = "/run/lock/nearmetal-bench.lock"
BOOT_TRIES = 2
"""An early hang of a guest on an emulated host is known; a second one in a row is a fault."""


@dataclass(frozen=True)
class Options:
    """What is asked for: the variables of the role benchmark_vm without their prefix."""

    scenarios: Sequence[str]
    cores: int
    cpus: str
    memory_mb: int
    hugepages: str
    workers: int
    stressor: str
    stressor_args: Sequence[str]
    seconds: int
    rounds: int
    max_rounds: int
    interval: float
    boot_timeout: int

    def load(self) -> Load:
        """The benchmark program; by default one worker to a core of the guest."""
        return Load(self.stressor, tuple(self.stressor_args), self.workers or self.cores, self.seconds)


@dataclass
class Plan:
    """Everything decided before anything is started."""

    at: Layout
    sides: List[Side]  # bare metal first
    guest: Guest
    notes: List[str] = field(default_factory=list)  # scenarios left out, and why

    @property
    def guests(self) -> List[Side]:
        """The sides that are guests."""
        return [s for s in self.sides if s.name != BARE_METAL]


def make_plan(host: Host, state: Mapping[str, Any], options: Options) -> Plan:
    """Choose cores, sides and memory. Raises BenchError."""
    console_device(state["cpu"]["arch"])
    at = layout(state["cpu"], isolated_cpus(state, options.cpus), options.cores)
    sides, notes = [side(BARE_METAL, at)], []
    for name in options.scenarios:
        try:
            sides.append(side(name, at))
        except NotApplicable as err:
            notes.append("scenario %s left out: %s" % (name, err))
    if len(sides) == 1:
        raise BenchError("no scenario asked for makes sense on this host: %s" % "; ".join(notes))
    guest = bench_needs.guest_of(host, state, sides[1:], options.memory_mb, options.hugepages)
    return Plan(at, sides, guest, notes)


def run_benchmark(host: Host, state: Mapping[str, Any], options: Options) -> Dict[str, Any]:
    """The document HostResults, without `run` and `host`, which only the controller knows. Raises BenchError."""
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    tools = bench_needs.find_tools(host)
    plan = make_plan(host, state, options)
    reason = bench_needs.emulation(host)
    with _alone(), _folder() as folder, _cpus(plan.at.reserved):
        files = _write_files(host, state, tools, folder)
        measured = _measure(host, plan, options, files, folder)
    notes = plan.notes + measured.notes + _notes(measured.runs)
    return {
        "schema": 1, "started": started, "backend": "libvirt",
        "emulated": bool(reason), "emulation_reason": reason,
        "benchmark_source": "stress-ng %s (distribution package; embedded default)" % tools.stress_ng_version,
        "kernel": state["kernel"]["release"], "qemu": tools.qemu, "libvirt": tools.libvirt,
        "scenarios": measured.scenarios, "runs": measured.runs, "unread": notes,
    }  # fmt: skip


class _Measured(NamedTuple):
    scenarios: List[Dict[str, Any]]
    runs: List[Dict[str, Any]]
    notes: List[str]


def _measure(host: Host, plan: Plan, options: Options, files: Files, folder: str) -> _Measured:
    load = options.load()
    virsh = Virsh(os.path.join(folder, "virsh.log"))
    contestants: Dict[str, Contestant] = {}
    documents = {s.name: s.as_result() for s in plan.sides}
    try:
        remove_leftovers(virsh)
        bare = plan.sides[0]
        contestants[bare.name] = BareMetalSide(host, bare, worker_cpus(plan.at, load.workers), folder)
        for one in plan.guests:
            booted, xml = _boot(virsh, one, plan.guest, files, folder, options.boot_timeout)
            contestants[one.name] = GuestSide(host, one, booted)
            documents[one.name].update(
                domain_xml=xml, boot_seconds=booted.boot_seconds, hugepages_kb=plan.guest.hugepages_kb,
                placement_problems=view_problems(one, str(booted.hello.get("siblings", ""))),
            )  # fmt: skip
        runs, notes = run_rounds(contestants, load, options)
    finally:
        for contestant in contestants.values():
            contestant.close()
        virsh.close()
    for name, document in documents.items():
        _judge(document, contestants[name], [r for r in runs if r["scenario"] == name])
    return _Measured(list(documents.values()), runs, notes)


def _boot(
    virsh: Virsh, one: Side, guest: Guest, files: Files, folder: str, timeout: int
) -> Tuple[Booted, str]:
    own = Files(files.kernel, files.initrd, os.path.join(folder, "%s.sock" % one.name))
    xml = domain_xml(one, guest, own)
    path = os.path.join(folder, "%s.xml" % one.name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(xml)
    for last in range(BOOT_TRIES):
        try:
            return boot(virsh, domain_name(one.name), path, own.console, timeout), xml
        except BenchError:
            if last == BOOT_TRIES - 1:
                raise
    raise AssertionError("unreachable")


def run_rounds(
    contestants: Dict[str, Contestant], load: Load, options: Options
) -> Tuple[List[Dict[str, Any]], List[str]]:
    """Runs of all rounds, and notes. A side that is lost stands in the results with its failed run.

    Raises BenchError where no two sides are left that could be compared.
    """
    runs: List[Dict[str, Any]] = []
    notes: List[str] = []
    alive = list(contestants)
    for number in range(max(options.rounds, options.max_rounds)):
        for position, name in enumerate(order(alive, number)):
            document, lost = _run_once(contestants[name], load, (number, position))
            runs.append(document)
            if lost:
                alive.remove(name)
                notes.append("%s was lost in round %d: %s" % (name, number, document["error"]))
        if BARE_METAL not in alive or len(alive) < 2:
            raise BenchError("nothing is left to compare: %s" % "; ".join(notes))
        values = {n: [r["value"] for r in runs if r["scenario"] == n and r["ok"]] for n in alive}
        if number + 1 >= options.rounds and enough(values, BARE_METAL, options.interval):
            break
    if not all(any(r["ok"] for r in runs if r["scenario"] == name) for name in alive):
        raise BenchError("the benchmark never succeeded: %s" % next(r["error"] for r in runs if not r["ok"]))
    return runs, notes


def _run_once(contestant: Contestant, load: Load, position: Tuple[int, int]) -> Tuple[Dict[str, Any], bool]:
    """The document of one run, and whether the side was lost in it."""
    started = time.monotonic()
    outcome, error, lost = None, "", False
    try:
        outcome = contestant.run(load)
    except ValueError as err:
        error = str(err)
    except BenchError as err:
        error, lost = str(err), True
    seconds = time.monotonic() - started
    return run_document(load, contestant.side, position, outcome, seconds, error), lost


def _judge(document: Dict[str, Any], contestant: Contestant, runs: Sequence[Mapping[str, Any]]) -> None:
    """Fill in placement_ok and what was wrong, each thing once."""
    problems = list(document["placement_problems"])
    for run in runs:
        if run["ok"]:
            problems += ["round %d: %s" % (run["round"], text) for text in contestant.problems(run)]
    document["placement_problems"] = problems
    document["placement_ok"] = not problems if any(r["ok"] for r in runs) else None


def _notes(runs: Sequence[Mapping[str, Any]]) -> List[str]:
    threads = [t for run in runs for t in run["threads"]]
    return [NO_MIGRATIONS] if threads and all(t["migrations"] is None for t in threads) else []


def _write_files(host: Host, state: Mapping[str, Any], tools: bench_needs.Tools, folder: str) -> Files:
    """Copy the kernel (libvirt changes the owner of what it boots) and build the initramfs."""
    kernel, initrd = os.path.join(folder, "vmlinuz"), os.path.join(folder, "initrd")
    image = bench_initramfs.kernel_image(host, state["kernel"]["release"])
    bench_initramfs.write_private(kernel, host.read_bytes(image))
    console = console_device(state["cpu"]["arch"])
    bench_initramfs.write_private(
        initrd, bench_initramfs.build(host, tools.stress_ng, tools.busybox, console)
    )
    return Files(kernel, initrd, "")


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Two benchmarks on one host would measure each other."""
    with open(LOCK, "a+", encoding="utf-8") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            f.seek(0)
            raise BenchError(
                "another benchmark runs on this host (%s)" % (f.read().strip() or "unknown")
            ) from None
        f.truncate(0)
        f.write("pid %d\n" % os.getpid())
        f.flush()
        yield


@contextlib.contextmanager
def _folder() -> Iterator[str]:
    """A fresh folder that QEMU's user can read; what a killed run left in it goes first."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(FOLDER, mode=0o755)
    try:
        yield FOLDER
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)


@contextlib.contextmanager
def _cpus(reserved: "frozenset[int]") -> Iterator[None]:
    """Keep this process, which samples, off the CPUs under test."""
    before = os.sched_getaffinity(0)
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, reserved or before)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, before)
