# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where threads and memory really were: parsers of /proc, and the judgement of a placement.

The parsers and `placement_problems` are pure. `Watch` reads a Host while a benchmark runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Dict, FrozenSet, Iterable, List, Mapping, Optional, Sequence, Set, Tuple

from . import cpulist
from .bench_scenarios import Side
from .host import Host, HostError, Missing

NO_MIGRATIONS = "nr_migrations: this kernel keeps no /proc/PID/sched (CONFIG_SCHED_DEBUG is off)"


@dataclass(frozen=True)
class Sample:
    """One thread at one moment. Counters grow from the thread's start; None where not kept."""

    cpu: int
    allowed: str
    migrations: Optional[int]
    involuntary: Optional[int]
    run_ns: Optional[int]
    wait_ns: Optional[int]


def parse_processor(stat: str) -> int:
    """Field 39 of /proc/TID/stat: the CPU that the thread runs, or last ran, on (proc_pid_stat(5))."""
    return int(stat.rpartition(")")[2].split()[36])


def parse_status(status: str) -> Tuple[str, Optional[int]]:
    """Cpus_allowed_list and nonvoluntary_ctxt_switches of /proc/TID/status."""
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    switches = fields.get("nonvoluntary_ctxt_switches")
    return fields.get("Cpus_allowed_list", "").strip(), None if switches is None else int(switches)


def parse_migrations(sched: str) -> Optional[int]:
    """se.nr_migrations of /proc/TID/sched; None where the kernel does not print it."""
    found = re.search(r"^se\.nr_migrations\s*:\s*(\d+)", sched, re.MULTILINE)
    return int(found.group(1)) if found else None


def parse_schedstat(text: str) -> Tuple[Optional[int], Optional[int]]:
    """Nanoseconds on a CPU, and nanoseconds runnable but waiting, of /proc/TID/schedstat."""
    words = text.split()
    return (int(words[0]), int(words[1])) if len(words) >= 2 else (None, None)


def parse_interrupts(text: str) -> Dict[int, int]:
    """Interrupts taken by each CPU since boot: the column sums of /proc/interrupts."""
    lines = text.splitlines()
    cpus = [int(word[3:]) for word in lines[0].split()] if lines else []
    sums = dict.fromkeys(cpus, 0)
    for line in lines[1:]:
        counts = line.partition(":")[2].split()[: len(cpus)]
        if len(counts) == len(cpus) and all(c.isdecimal() for c in counts):  # ERR and MIS are not per CPU
            for cpu, count in zip(cpus, counts):
                sums[cpu] += int(count)
    return sums


def parse_numa_maps(text: str, bound_only: bool) -> Dict[Tuple[int, int], int]:
    """Bytes by (node, page size in kB) of /proc/PID/numa_maps.

    bound_only: only memory with a binding policy, which in a QEMU whose guest is bound to nodes is
    the guest's memory and not QEMU's own.
    """
    total: Dict[Tuple[int, int], int] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) < 2 or (bound_only and not words[1].startswith("bind")):
            continue
        keys = dict(word.split("=", 1) for word in words[2:] if "=" in word)
        page_kb = int(keys.get("kernelpagesize_kB", 4))
        for key, pages in keys.items():
            if re.match(r"N\d+$", key):
                at = (int(key[1:]), page_kb)
                total[at] = total.get(at, 0) + int(pages) * page_kb * 1024
    return total


def memory_document(total: Mapping[Tuple[int, int], int]) -> List[Dict[str, int]]:
    """The form of a result file."""
    return [{"node": n, "page_kb": kb, "bytes": size} for (n, kb), size in sorted(total.items()) if size]


def sample(host: Host, process: int, thread: int) -> Sample:
    """One look at a thread. Raises Missing where it is gone."""
    folder = "/proc/%d/task/%d" % (process, thread)
    allowed, involuntary = parse_status(host.read(folder + "/status"))
    run_ns, wait_ns = parse_schedstat(_optional(host, folder + "/schedstat"))
    return Sample(
        cpu=parse_processor(host.read(folder + "/stat")),
        allowed=allowed,
        migrations=parse_migrations(_optional(host, folder + "/sched")),
        involuntary=involuntary,
        run_ns=run_ns,
        wait_ns=wait_ns,
    )


def _optional(host: Host, path: str) -> str:
    try:
        return host.get(path)
    except HostError:
        return ""


@dataclass
class Trace:
    """What was seen of one thread during one run."""

    first: Optional[Sample] = None
    last: Optional[Sample] = None
    seen: Set[int] = field(default_factory=set)
    allowed: Set[int] = field(default_factory=set)

    def add(self, one: Sample) -> None:
        """Take one more sample in."""
        idle = self.last is not None and one.run_ns is not None and one.run_ns == self.last.run_ns
        if not idle:  # a thread that did not run since the last sample was nowhere
            self.seen.add(one.cpu)
        self.allowed |= cpulist.parse(one.allowed)
        self.first = self.first or one
        self.last = one

    def document(self, name: str, from_start: bool) -> Dict[str, Any]:
        """The form of a result file. from_start: the thread was started for this run, so its counters count."""
        zero = Sample(0, "", 0, 0, 0, 0) if from_start else self.first
        run = _difference(zero, self.last, "run_ns")
        wait = _difference(zero, self.last, "wait_ns")
        return {
            "name": name,
            "allowed": cpulist.format(self.allowed),
            "seen": cpulist.format(self.seen),
            "migrations": _difference(zero, self.last, "migrations"),
            "involuntary_switches": _difference(zero, self.last, "involuntary"),
            "run_ms": None if run is None else round(run / 1e6, 1),
            "wait_ms": None if wait is None else round(wait / 1e6, 1),
        }


def _difference(first: Optional[Sample], last: Optional[Sample], name: str) -> Optional[int]:
    low, high = getattr(first, name, None), getattr(last, name, None)
    return None if low is None or high is None else max(0, high - low)


class Watch:
    """Samples named threads of one run."""

    def __init__(self, host: Host, from_start: bool) -> None:
        self.host = host
        self.from_start = from_start
        self.traces: Dict[str, Trace] = {}
        self.memory: Dict[Tuple[int, int], int] = {}
        self._before = parse_interrupts(_optional(host, "/proc/interrupts"))

    def look(self, threads: Mapping[str, Tuple[int, int]]) -> None:
        """One sample of every thread, given as name -> (process, thread); those gone are passed over."""
        for name, (process, thread) in threads.items():
            try:
                self.traces.setdefault(name, Trace()).add(sample(self.host, process, thread))
            except (Missing, HostError, ValueError, IndexError):
                continue  # it ended between two reads

    def look_at_memory(self, processes: Iterable[int], bound_only: bool) -> None:
        """Replace the picture of memory by the present one; kept where nothing can be read any more."""
        total: Dict[Tuple[int, int], int] = {}
        for process in processes:
            text = _optional(self.host, "/proc/%d/numa_maps" % process)
            for at, size in parse_numa_maps(text, bound_only).items():
                total[at] = total.get(at, 0) + size
        self.memory = total or self.memory

    def document(self, host_cpus: FrozenSet[int]) -> Dict[str, Any]:
        """The fields threads, memory and interrupts of a run."""
        after = parse_interrupts(_optional(self.host, "/proc/interrupts"))
        taken = {
            str(c): after[c] - self._before[c] for c in sorted(host_cpus) if c in after and c in self._before
        }
        threads = [t.document(name, self.from_start) for name, t in sorted(self.traces.items()) if t.last]
        return {"threads": threads, "memory": memory_document(self.memory), "interrupts": taken}


def placement_problems(side: Side, run: Mapping[str, Any]) -> List[str]:
    """What was not where it belongs in one run; none: every vCPU thread and all memory was in place.

    side: with pins (a guest). run: a document `Run`. A thread or memory that was not seen at all is
    a problem too: nothing is proven then.
    """
    found: List[str] = []
    threads = {t["name"]: t for t in run["threads"]}
    for vcpu, cpu in enumerate(side.pins):
        found += _thread_problems("vcpu%d" % vcpu, threads.get("vcpu%d" % vcpu), frozenset((cpu,)))
    if side.emulator and "emulator" in threads:
        found += _thread_problems("emulator", threads["emulator"], side.emulator)
    return found + _memory_problems(side.nodes, run["memory"])


def worker_problems(run: Mapping[str, Any], cpus: Sequence[int]) -> List[str]:
    """The same for bare metal, where worker N belongs on cpus[N]."""
    threads = {t["name"]: t for t in run["threads"]}
    found: List[str] = []
    for index, cpu in enumerate(cpus):
        found += _thread_problems("worker%d" % index, threads.get("worker%d" % index), frozenset((cpu,)))
    return found


def view_problems(side: Side, siblings: str) -> List[str]:
    """Whether the guest sees the threads that the scenario means to show it.

    siblings: thread_siblings_list of every vCPU in order, with blanks between, as the guest reads it.
    """
    threads = side.topology[2]
    want = [
        cpulist.format(range(v // threads * threads, (v // threads + 1) * threads))
        for v in range(len(side.pins))
    ]
    # The kernel may write two siblings as 0-1 or 0,1.
    got = [cpulist.format(cpulist.parse(word)) for word in siblings.split()]
    if got == want:
        return []
    return ["the guest sees the siblings %s, meant were %s" % (" ".join(got) or "(none)", " ".join(want))]


def _thread_problems(name: str, thread: Optional[Mapping[str, Any]], cpus: FrozenSet[int]) -> List[str]:
    if thread is None:
        return ["%s was not seen" % name]
    want = cpulist.format(cpus)
    found = []
    for key, words in (("allowed", "was allowed on"), ("seen", "was seen on")):
        if not cpulist.parse(thread[key]) <= cpus:
            found.append("%s %s CPU %s, pinned to %s" % (name, words, thread[key], want))
    return found


def _memory_problems(nodes: Sequence[int], memory: Sequence[Mapping[str, int]]) -> List[str]:
    if not memory:
        return ["no memory of the guest was seen on any node"]
    want = ",".join(map(str, nodes))
    return [
        "%d MiB of memory on node %d, bound to %s" % (m["bytes"] // 2**20, m["node"], want)
        for m in memory
        if m["node"] not in nodes
    ]
