"""Evidence of placement."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils import bench_evidence as e
from ansible_collections.nearmetal.rack.plugins.module_utils.bench_scenarios import Side
from ansible_collections.nearmetal.rack.plugins.module_utils.host import SnapshotHost

STAT = "77 (CPU 0/KVM) R " + " ".join(str(n) for n in range(4, 53))
STATUS = "Name:\tCPU 0/KVM\nCpus_allowed_list:\t4\nnonvoluntary_ctxt_switches:\t9\n"
NUMA_MAPS = """\
7f1000000000 bind:1 file=/dev/hugepages/libvirt/qemu/1/ram huge dirty=4 N1=4 kernelpagesize_kB=2048
7f2000000000 bind:1 anon=3 dirty=3 N0=1 N1=2 kernelpagesize_kB=4
7f3000000000 default heap anon=9 dirty=9 N0=9 kernelpagesize_kB=4
7f4000000000 default
"""
INTERRUPTS = """\
           CPU0       CPU2
  0:         10          5   IO-APIC   2-edge      timer
LOC:        100        200   Local timer interrupts
ERR:          7
"""


def side() -> Side:
    return Side(
        "matched_pinned", 1, "", "", (1, 1, 2), (4, 5), (((0, 1), 1),), frozenset({4, 5}), frozenset({0})
    )


def run(**changes: Any) -> dict[str, Any]:
    threads = [
        {"name": "vcpu0", "allowed": "4", "seen": "4"}, {"name": "vcpu1", "allowed": "5", "seen": "5"},
        {"name": "emulator", "allowed": "0", "seen": "0"},
    ]  # fmt: skip
    return {"threads": threads, "memory": [{"node": 1, "bytes": 2**28, "page_kb": 2048}], **changes}


def test_field_39_is_found_behind_any_name() -> None:
    assert e.parse_processor(STAT) == 39
    assert e.parse_processor(STAT.replace("CPU 0/KVM", "a) b (c")) == 39


def test_status() -> None:
    assert e.parse_status(STATUS) == ("4", 9)
    assert e.parse_status("Name: x\n") == ("", None)


def test_sched_with_and_without_migrations() -> None:
    assert e.parse_migrations("se.exec_start : 1.0\nse.nr_migrations                  :         12\n") == 12
    assert e.parse_migrations("") is None


def test_schedstat() -> None:
    assert e.parse_schedstat("500 20 3\n") == (500, 20)
    assert e.parse_schedstat("") == (None, None)


def test_interrupts_are_summed_by_cpu_number_not_position() -> None:
    assert e.parse_interrupts(INTERRUPTS) == {0: 110, 2: 205}
    assert e.parse_interrupts("") == {}


def test_guest_memory_is_the_bound_memory() -> None:
    assert e.parse_numa_maps(NUMA_MAPS, bound_only=True) == {(1, 2048): 8 * 2**20, (0, 4): 4096, (1, 4): 8192}
    assert e.parse_numa_maps(NUMA_MAPS, bound_only=False)[0, 4] == 40960


def snapshot(cpu: int, run_ns: int, allowed: str = "4") -> SnapshotHost:
    fields = STAT.split()
    fields[-(52 - 39) - 1] = str(cpu)
    at = "/proc/7/task/8"
    return SnapshotHost(
        {
            f"{at}/stat": " ".join(fields), f"{at}/status": STATUS.replace("list:\t4", f"list:\t{allowed}"),
            f"{at}/schedstat": f"{run_ns} 0 1", "/proc/interrupts": INTERRUPTS,
        }
    )  # fmt: skip


def test_a_thread_that_did_not_run_was_nowhere() -> None:
    trace = e.Trace()
    trace.add(e.sample(snapshot(4, 100), 7, 8))
    trace.add(e.sample(snapshot(6, 100), 7, 8))  # same time on CPU: the number is of no run
    assert trace.document("vcpu0", from_start=False)["seen"] == "4"
    trace.add(e.sample(snapshot(5, 2_000_100), 7, 8))
    found = trace.document("vcpu0", from_start=False)
    assert found["seen"] == "4-5"
    assert found["run_ms"] == 2.0
    assert found["migrations"] is None


def test_counters_of_a_thread_started_for_the_run_count_from_zero() -> None:
    trace = e.Trace()
    trace.add(e.sample(snapshot(4, 3_000_000), 7, 8))
    assert trace.document("worker0", from_start=True)["involuntary_switches"] == 9
    assert trace.document("worker0", from_start=True)["run_ms"] == 3.0
    assert trace.document("vcpu0", from_start=False)["run_ms"] == 0


def test_watch_passes_over_threads_that_ended_and_keeps_the_rest() -> None:
    watch = e.Watch(snapshot(4, 1), from_start=False)
    watch.look({"vcpu0": (7, 8), "vcpu1": (7, 9)})
    watch.look_at_memory([7], bound_only=True)
    found = watch.document(frozenset({0, 2, 3}))
    assert [t["name"] for t in found["threads"]] == ["vcpu0"]
    assert found["interrupts"] == {"0": 0, "2": 0}
    assert found["memory"] == []


def test_everything_in_place() -> None:
    assert e.placement_problems(side(), run()) == []


@pytest.mark.parametrize(
    ("name", "key", "value", "text"),
    [
        ("vcpu1", "seen", "4-5", "vcpu1 was seen on CPU 4-5, pinned to 5"),
        ("vcpu0", "allowed", "0-7", "vcpu0 was allowed on CPU 0-7, pinned to 4"),
        ("emulator", "seen", "4", "emulator was seen on CPU 4, pinned to 0"),
    ],
)
def test_out_of_place(name: str, key: str, value: str, text: str) -> None:
    found = run()
    next(t for t in found["threads"] if t["name"] == name)[key] = value
    assert e.placement_problems(side(), found) == [text]


def test_what_was_not_seen_is_not_proven() -> None:
    assert e.placement_problems(side(), run(threads=[], memory=[])) == [
        "vcpu0 was not seen", "vcpu1 was not seen", "no memory of the guest was seen on any node",
    ]  # fmt: skip


def test_memory_elsewhere() -> None:
    memory = [{"node": 0, "bytes": 2**21, "page_kb": 4}, {"node": 1, "bytes": 2**28, "page_kb": 4}]
    assert e.placement_problems(side(), run(memory=memory)) == ["2 MiB of memory on node 0, bound to 1"]


def test_workers_of_bare_metal() -> None:
    threads = [
        {"name": "worker0", "allowed": "4", "seen": "4"},
        {"name": "worker1", "allowed": "6", "seen": "7"},
    ]
    assert e.worker_problems(run(threads=threads), [4, 6]) == ["worker1 was seen on CPU 7, pinned to 6"]


def test_the_guest_sees_what_it_was_meant_to_see() -> None:
    assert e.view_problems(side(), "0-1 0,1 ") == []
    assert "sees the siblings 0 1, meant were 0-1 0-1" in e.view_problems(side(), "0 1")[0]
