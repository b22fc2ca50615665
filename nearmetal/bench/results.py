"""Shape of a benchmark result file (`results.json`, schema 1).

The role `benchmark_vm` writes one `HostResults` document per host; `bench report` and `bench
compare` read a folder of them.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA = 1


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Threads(_Model):
    """Where one vCPU thread (or bare-metal worker) really ran during one run."""

    name: str  # "vcpu0", "worker1", "emulator"
    allowed: str  # cpulist it was allowed on
    seen: str  # cpulist it was seen on while sampling /proc/TID/stat
    migrations: int | None  # difference of se.nr_migrations in /proc/TID/sched; None where not kept
    involuntary_switches: int | None  # difference of nonvoluntary_ctxt_switches
    run_ms: float | None = None  # time on CPU, from /proc/TID/schedstat
    wait_ms: float | None = None  # time runnable but waiting, from /proc/TID/schedstat


class MemoryNode(_Model):
    """Memory of the benchmark (or guest) on one NUMA node, from numa_maps."""

    node: int
    bytes: int
    page_kb: int  # 4, 2048, 1048576


class Run(_Model):
    """One execution of one benchmark on one side."""

    scenario: str  # Scenario.name, "bare_metal" is the other side
    round: int  # interleaving round, from 0: every round runs all scenarios, order reversed each time
    position: int  # place within the round
    benchmark: str  # "stress-ng matrix"
    value: float  # the metric
    unit: str  # "bogo ops/s"
    higher_is_better: bool = True
    seconds: float  # wall time
    ok: bool  # False: the benchmark failed or did not verify; kept, never dropped silently
    error: str = ""
    threads: list[Threads] = Field(default_factory=list)
    memory: list[MemoryNode] = Field(default_factory=list)
    interrupts: dict[str, int] = Field(default_factory=dict)  # CPU -> interrupts taken during the run


class Pin(_Model):
    """Intended placement of one vCPU."""

    vcpu: int
    host_cpu: int
    guest_socket: int = 0
    guest_core: int = 0
    guest_thread: int = 0


class Scenario(_Model):
    """One of the sides compared. `number` is the row of the table of eight scenarios, 0 for bare metal."""

    name: str  # "bare_metal", "matched_pinned", "smt_hidden", "siblings_shuffled"
    number: int
    title: str
    description: str
    pins: list[Pin] = Field(default_factory=list)
    emulator_cpus: str = ""
    memory_nodes: list[int] = Field(default_factory=list)
    hugepages_kb: int = 0
    host_cpus: str = ""  # CPUs that the side may use
    domain_xml: str = ""
    boot_seconds: float | None = None
    placement_ok: bool | None = None  # every thread was seen only where it was pinned
    placement_problems: list[str] = Field(default_factory=list)


class HostResults(_Model):
    """Everything measured on one host in one benchmark run."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    run: str  # id: 20261130T215500Z-abcd
    host: str
    started: str  # ISO 8601, UTC
    backend: Literal["libvirt", "kubevirt"] = "libvirt"
    emulated: bool  # the host itself is a TCG guest, or the VM had no KVM: figures mean nothing
    emulation_reason: str = ""
    benchmark_source: str  # "stress-ng 0.18 (Debian package; embedded default)"
    kernel: str
    qemu: str
    libvirt: str
    scenarios: list[Scenario]
    runs: list[Run]
    unread: list[str] = Field(default_factory=list)  # evidence that could not be gathered, and why

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
