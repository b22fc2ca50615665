"""Valid documents for the report: hosts, apply runs and benchmark results of made-up racks."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ansible_collections.nearmetal.rack.plugins.module_utils import cpulist

GIB = 1024**3
START = datetime(2026, 11, 30, 21, 55, tzinfo=UTC)


def core_list(sockets: int, nodes: int, cores: int, smt: bool) -> list[dict[str, Any]]:
    """Cores of a host as firmware of servers numbers them: first threads of all cores, then second ones."""
    every = sockets * nodes * cores
    return [
        {
            "cpus": f"{index},{index + every}" if smt else str(index),
            "node": index // cores, "socket": index // (cores * nodes), "core_id": index % (cores * nodes),
            "die": 0, "kind": "",
        }
        for index in range(every)
    ]  # fmt: skip


def adjacent_cores(sockets: int, cores: int) -> list[dict[str, Any]]:
    """Cores as QEMU numbers them: siblings side by side, a node per socket."""
    return [
        {
            "cpus": f"{2 * i}-{2 * i + 1}", "node": i // cores, "socket": i // cores, "core_id": i % cores,
            "die": 0, "kind": "",
        }
        for i in range(sockets * cores)
    ]  # fmt: skip


def function(address: str, class_: str, node: int | None, **more: Any) -> dict[str, Any]:
    """A PCI function."""
    base = {
        "address": address, "vendor": "0x8086", "device": "0x10c9", "subsystem": "", "class": class_,
        "numa_node": node, "driver": "igb", "iommu_group": 14, "sriov_total": 0, "sriov_vfs": 0, "physfn": "",
        "netdevs": [], "parent": "", "capabilities": ["pm", "pcie"], "ats_enabled": None,
    }  # fmt: skip
    return {**base, **more}


def state(
    name: str,
    cores: list[dict[str, Any]],
    *,
    isolated: str = "",
    offline: str = "",
    cmdline: str = "BOOT_IMAGE=/vmlinuz root=UUID=1 ro quiet",
    pages: dict[int, int] | None = None,
    pci: list[dict[str, Any]] | None = None,
    model: str = "QEMU TCG CPU version 2.5+",
    node_gib: int = 1,
    slices: dict[str, str | None] | None = None,
) -> dict[str, Any]:
    """A document of host_info. pages: 2 MiB pages of each node."""
    online = {cpu for core in cores for cpu in cpulist.parse(core["cpus"])}
    ids = sorted({core["node"] for core in cores})
    nodes = [
        {
            "id": n, "kind": "cpu", "memory_bytes": node_gib * GIB, "distances": [10 if m == n else 21 for m in ids],
            "cpus": cpulist.format({c for core in cores if core["node"] == n for c in cpulist.parse(core["cpus"])}),
        }
        for n in ids
    ]  # fmt: skip
    pools = [
        {"node": n, "size_kb": size, "total": total, "free": total, "surplus": 0}
        for n in ids
        for size, total in ((2048, (pages or {}).get(n, 0)), (1048576, 0))
    ]
    devices = pci or []
    return {
        "schema": 1, "live": True,
        "os": {
            "id": "debian", "version_id": "13", "name": "Debian GNU/Linux 13 (trixie)", "hostname": name,
            "systemd": True,
        },
        "cpu": {
            "arch": "x86_64", "vendor": "AuthenticAMD", "model": model, "flags_virt": "svm",
            "online": cpulist.format(online), "offline": offline,
            "present": cpulist.format(online | cpulist.parse(offline)), "isolated": isolated,
            "nohz_full": isolated, "threads_per_core": max(len(cpulist.parse(c["cpus"])) for c in cores),
            "smt": "on", "boot_cpu": 0, "sockets": len({c["socket"] for c in cores}), "cores": cores, "nodes": nodes,
        },
        "memory": {
            "total_bytes": node_gib * GIB * len(ids), "hugepage_default_kb": 2048,
            "hugepage_sizes_kb": [2048, 1048576], "hugepages": pools, "thp": "madvise",
        },
        "kernel": {
            "release": "6.12.57+deb13-amd64", "cmdline": cmdline, "boot_id": "0b", "lockdown": "none", "uptime_s": 95.0,
        },
        "boot": {"loader": "grub", "configured": cmdline, "sealed": "", "sources": ["/etc/default/grub"]},
        "iommu": {"groups": 23, "types": {"identity": 23}, "units": ["dmar0"]},
        "pci": devices,
        "net": [
            {"name": d, "pci": f["address"], "mac": "", "mtu": 1500, "operstate": "up", "speed_mbps": 1000, "bond": ""}
            for f in devices for d in f["netdevs"]
        ],
        "confinement": {
            "cgroup": "v2", "effective": slices or {},
            "slices": slices or {"init.scope": None, "system.slice": None, "user.slice": None, "machine.slice": None},
            "default_irq_affinity": "0-1", "irqs": [], "irqbalance": "inactive", "files": {},
        },
        "kvm": True, "last_reboot": None, "unread": [],
    }  # fmt: skip


def lab_host(name: str, *, converged: bool) -> dict[str, Any]:
    """A node of the virtual rack: 8 CPUs, 2 nodes, 2 PFs; before or after the run."""
    line = "BOOT_IMAGE=/boot/vmlinuz-6.12.57 root=/dev/vda3 ro no_timer_check tsc=reliable console=tty0 console=ttyS0"
    ours = " isolcpus=managed_irq,domain,2-3,6-7 nohz_full=2-3,6-7 rcu_nocbs=2-3,6-7 intel_iommu=on iommu=pt"
    pfs = [
        function("0000:21:00.0", "0x020000", 0, netdevs=["enp33s0"], sriov_total=7, sriov_vfs=0, iommu_group=18),
        function("0000:41:00.0", "0x020000", 1, netdevs=["enp65s0"], sriov_total=7, sriov_vfs=2, iommu_group=19),
        function("0000:41:10.0", "0x020000", 1, driver="igbvf", physfn="0000:41:00.0"),
        function("0000:00:01.0", "0x030000", None, vendor="0x1234", driver="bochs-drm"),
    ]
    return state(
        name, adjacent_cores(2, 2), isolated="2-3,6-7" if converged else "", cmdline=line + (ours if converged else ""),
        pages={0: 64, 1: 128} if converged else {}, pci=pfs,
    )  # fmt: skip


def big_host(name: str) -> dict[str, Any]:
    """2 sockets of 64 cores with SMT, 8 NUMA nodes (SNC), 10 NICs, 8 GPUs."""
    cores = core_list(2, 4, 16, True)
    nics = [
        function(f"0000:{0x10 + i:02x}:00.{i % 2}", "0x020000", i % 8, vendor="0x15b3", driver="mlx5_core",
                 netdevs=[f"ens{i}f{i % 2}np{i % 2}"], sriov_total=16, sriov_vfs=8, iommu_group=40 + i)
        for i in range(10)
    ]  # fmt: skip
    gpus = [
        function(f"0000:{0x80 + i:02x}:00.0", "0x030200", i, vendor="0x10de", driver="vfio-pci", iommu_group=80 + i)
        for i in range(8)
    ]
    reserved = cpulist.parse(",".join(f"{n * 16}-{n * 16 + 1},{n * 16 + 128}-{n * 16 + 129}" for n in range(8)))
    return state(
        name, cores, isolated=cpulist.format(set(range(256)) - reserved), pages=dict.fromkeys(range(8), 30720),
        pci=nics + gpus, model="AMD EPYC 9535 64-Core Processor", node_gib=96,
        cmdline="root=UUID=1 ro isolcpus=2-15 hugepagesz=2M hugepages=0:30720",
    )  # fmt: skip


def step(
    host: str, capability: str, key: str, before: str, after: str, reason: str, disruption: str, verify: str
) -> dict[str, Any]:
    """A step of plan.json."""
    return {
        "id": f"{host}/{capability}/{key}", "host": host, "capability": capability, "key": key, "before": before,
        "after": after, "reason": reason, "disruption": disruption, "requires": [], "verify": verify,
    }  # fmt: skip


def lab_steps(host: str) -> list[dict[str, Any]]:
    """Steps of a rack node, as the capabilities of the main job give them."""
    return [
        step(host, "kernel_args", "cmdline", "no_timer_check tsc=reliable console=tty0 console=ttyS0",
             "no_timer_check tsc=reliable console=tty0 console=ttyS0 isolcpus=managed_irq,domain,2-3,6-7 "
             "nohz_full=2-3,6-7 rcu_nocbs=2-3,6-7 intel_iommu=on iommu=pt",
             "cpu_isolation keeps whole cores for guests; iommu needs DMA remapping for passthrough", "reboot",
             "/proc/cmdline has these arguments"),
        step(host, "cpu_isolation", "isolated", "", "2-3,6-7",
             "one core per NUMA node stays with the host, the rest is for guests", "reboot",
             "/sys/devices/system/cpu/isolated is 2-3,6-7"),
        step(host, "hugepages", "node0-2048kB", "0", "64", "guests of node 0 use 128 MiB in 2 MiB pages", "none",
             "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages is 64"),
        step(host, "hugepages", "node1-2048kB", "0", "128", "guests of node 1 use 256 MiB in 2 MiB pages", "none",
             "/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages is 128"),
        step(host, "iommu", "passthrough", "DMA", "identity", "passthrough mode costs host drivers nothing", "reboot",
             "every IOMMU group has type identity"),
        step(host, "reboot", "reboot", "running", "rebooted", "takes effect only at boot: kernel_args/cmdline", "reboot",
             "boot_id changed, then everything above is read back"),
    ]  # fmt: skip


def journal(host: str, steps: list[dict[str, Any]], shift: float = 0.0, *, back: bool = True) -> list[dict[str, Any]]:
    """Events of a run as the callback plugin writes them; `back`: the host came back from its reboot."""
    clock = START.timestamp() + 4 + shift
    events: list[dict[str, Any]] = []
    action = {"plan": "nearmetal.rack.plan", "converge": "nearmetal.rack.converge", "reboot": "nearmetal.rack.reboot"}

    def tell(after_s: float, event: str, **more: Any) -> None:
        nonlocal clock
        clock += after_s
        events.append({"time": clock, "event": event, "host": host, **more})

    def look(left: list[dict[str, Any]]) -> None:
        ids = [{"id": f"{s['capability']}/{s['key']}", "before": s["before"]} for s in left]
        tell(0.1, "task_start", task="Observe and decide", action=action["plan"])
        plan = {"status": "changes" if left else "ok", "steps": ids, "reboot": bool(left)}
        tell(1.3, "plan", action=action["plan"], ok=True, plan=plan)

    look(steps)
    for capability in dict.fromkeys(s["capability"] for s in steps if s["capability"] != "reboot"):
        tell(0.1, "task_start", task=f"Converge {capability}", action=action["converge"])
        for number, one in enumerate(s for s in steps if s["capability"] == capability):
            tell(0 if number else 3.1, "step_done", step=f"{capability}/{one['key']}", before=one["before"],
                 after=one["after"])  # fmt: skip
        tell(0, "task_done", task=f"Converge {capability}", action=action["converge"], changed=True)
    tell(0.4, "reboot_start", task="Reboot", action=action["reboot"])
    if back:
        tell(61, "reboot_done", action=action["reboot"], seconds=61)
        look([])
        look([])
    return events


def write_run(top: Path, run: str, before: dict[str, Any], after: dict[str, Any], steps: list[dict[str, Any]],
              events: list[dict[str, Any]], *, status: str = "ok", hosts: dict[str, Any] | None = None,
              started: datetime = START) -> Path:  # fmt: skip
    """runs/RUN/ with everything in it."""
    folder = top / "runs" / run
    (folder / "states").mkdir(parents=True)
    names = sorted({*before, *after, *(s["host"] for s in steps)})
    differ = {s["host"] for s in steps}
    told = {h: {"status": "changes" if h in differ else "ok", "problems": [], "warnings": [], "reboot": h in differ}
            for h in names} | (hosts or {})  # fmt: skip
    by = {d: sum(s["disruption"] == d for s in steps) for d in ("none", "traffic", "drain", "reboot", "power_cycle")}
    plan = {
        "schema": 1, "created": started.isoformat(), "inventory": "inventories/lab", "hosts": told, "steps": steps,
        "summary": {"hosts": len(told), "changed_hosts": len(differ), "reboots": len(differ), "by_disruption": by},
    }  # fmt: skip
    info = {
        "schema": 1, "id": run, "command": ["nearmetal", "apply", "-i", "inventories/lab", "--yes"],
        "inventory": "inventories/lab", "limit": "", "started": started.isoformat(),
        "ended": (started + timedelta(seconds=131)).isoformat(), "status": status, "hosts": dict.fromkeys(names, "ok"),
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(info))
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "journal.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events))
    for when, states in (("before", before), ("after", after)):
        for host, document in states.items():
            (folder / "states" / f"{host}.{when}.json").write_text(json.dumps(document))
    return folder


def scenario(name: str, number: int, title: str, pins: list[tuple[int, int, int]], **more: Any) -> dict[str, Any]:
    """A side. pins: (host CPU, guest core, guest thread) of each vCPU."""
    base = {
        "name": name, "number": number, "title": title, "description": "", "emulator_cpus": "0-1" if pins else "",
        "pins": [{"vcpu": v, "host_cpu": c, "guest_socket": 0, "guest_core": k, "guest_thread": t}
                 for v, (c, k, t) in enumerate(pins)],
        "memory_nodes": [1] if pins else [], "hugepages_kb": 2048 if pins else 0, "host_cpus": "6-7",
        "domain_xml": "<domain/>" if pins else "", "boot_seconds": 41.2 if pins else None, "placement_ok": True,
        "placement_problems": [],
    }  # fmt: skip
    return {**base, **more}


LAB_SCENARIOS = [
    scenario("bare_metal", 0, "Bare metal", []),
    scenario("matched_pinned", 1, "Topology matched and pinned", [(6, 0, 0), (7, 0, 1)]),
    scenario("smt_hidden", 4, "SMT hidden from the guest", [(6, 0, 0), (7, 1, 0)]),
]


def runs(
    scenarios: list[dict[str, Any]], speeds: dict[str, float], rounds: int = 6, seed: int = 1
) -> list[dict[str, Any]]:
    """Interleaved runs around the given speeds, with placement evidence."""
    dice = random.Random(seed)
    out = []
    for number in range(rounds):
        order = scenarios if number % 2 == 0 else scenarios[::-1]
        for position, side in enumerate(order):
            pins = side["pins"]
            names = [(f"vcpu{p['vcpu']}", str(p["host_cpu"])) for p in pins] or [("worker0", "6-7"), ("worker1", "6-7")]
            if pins:
                names.append(("emulator", side["emulator_cpus"]))
            out.append({
                "scenario": side["name"], "round": number, "position": position, "benchmark": "stress-ng matrix",
                "value": speeds[side["name"]] * dice.gauss(1, 0.015), "unit": "bogo ops/s", "higher_is_better": True,
                "seconds": 10.2, "ok": True, "error": "",
                "threads": [{"name": n, "allowed": a, "seen": a.split("-")[0], "migrations": 0 if pins else 2,
                             "involuntary_switches": dice.randrange(9), "run_ms": 10100.0, "wait_ms": 1.5}
                            for n, a in names],
                "memory": [{"node": 1, "bytes": (256 if pins else 9) * 1024**2, "page_kb": 2048 if pins else 4}],
                "interrupts": {"6": 10200 + dice.randrange(400), "7": 10150, "0": 22000},
            })  # fmt: skip
    return out


def results(host: str, scenarios: list[dict[str, Any]], measured: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A HostResults document."""
    base = {
        "schema": 1, "run": "20261130T220100Z-beef", "host": host, "started": "2026-11-30T22:01:00+00:00",
        "backend": "libvirt", "emulated": True, "emulation_reason": "the host is a QEMU guest without KVM (TCG)",
        "benchmark_source": "stress-ng 0.18.06 (Debian package; embedded default)", "kernel": "6.12.57+deb13-amd64",
        "qemu": "10.0.3", "libvirt": "11.3.0", "scenarios": scenarios, "runs": measured, "unread": [],
    }  # fmt: skip
    return {**base, **more}


def write_bench(top: Path, run: str, documents: list[dict[str, Any]]) -> Path:
    """bench/RUN/HOST.json of every host."""
    folder = top / "bench" / run
    folder.mkdir(parents=True)
    for number, document in enumerate(documents):
        (folder / f"host{number}.json").write_text(json.dumps({**document, "run": run}))
    return folder


def lab_rack(top: Path) -> Path:
    """State folder of a virtual rack: two nodes, a run, a second run without changes, a benchmark."""
    names = ["compute1", "compute2"]
    before = {n: lab_host(n, converged=False) for n in names}
    after = {n: lab_host(n, converged=True) for n in names}
    steps = [s for n in names for s in lab_steps(n)]
    events = [e for i, n in enumerate(names) for e in journal(n, lab_steps(n), 2.5 * i)]
    write_run(top, "20261130T215500Z-cafe", before, after, steps, events)
    write_run(top, "20261130T215800Z-f00d", after, {}, [], [], started=START + timedelta(minutes=3))
    speeds = {"bare_metal": 412.0, "matched_pinned": 401.0, "smt_hidden": 371.0}
    measured = [results(n, LAB_SCENARIOS, runs(LAB_SCENARIOS, speeds, seed=i)) for i, n in enumerate(names)]
    write_bench(top, "20261130T220100Z-beef", measured)
    return top


def big_rack(top: Path, hosts: int = 16) -> Path:
    """State folder of a rack of large servers with real figures; one host failed."""
    names = [f"gpu-{n:02d}" for n in range(1, hosts + 1)]
    after = {n: big_host(n) for n in names}
    steps = [s for n in names for s in lab_steps(n)]
    events = [e for i, n in enumerate(names[1:]) for e in journal(n, lab_steps(n), 20.0 * (i // 4))]
    events += journal(names[0], lab_steps(names[0]), back=False)
    events.append({"time": events[-1]["time"] + 90, "event": "failed", "host": names[0], "task": "Reboot", "step": "",
                   "action": "nearmetal.rack.reboot", "message": "Timed out waiting for the last boot time check"})
    write_run(top, "20261130T215500Z-b16", after, dict(list(after.items())[1:]), steps, events, status="failed")
    pairs = [(16 + 4 + i // 2 + (128 if i % 2 else 0), i // 2, i % 2) for i in range(8)]
    shuffled = [(16 + 4 + (i // 2 + i % 2) % 4 + (128 if i % 2 else 0), i // 2, i % 2) for i in range(8)]
    sides = [
        scenario("bare_metal", 0, "Bare metal", [], host_cpus="20-23,148-151"),
        scenario("matched_pinned", 1, "Topology matched and pinned", pairs, emulator_cpus="16,144"),
        scenario("smt_hidden", 4, "SMT hidden", [(c, 2 * k + t, 0) for c, k, t in pairs], emulator_cpus="16,144"),
        scenario("siblings_shuffled", 6, "Siblings shuffled", shuffled, emulator_cpus="16,144"),
    ]
    speeds = {"bare_metal": 9120.0, "matched_pinned": 9055.0, "smt_hidden": 6890.0, "siblings_shuffled": 7240.0}
    measured = [runs(sides, speeds, 5, i) for i in range(len(names) - 1)]
    real = {"emulated": False, "emulation_reason": ""}
    write_bench(top, "20261130T230000Z-b16", [results(n, sides, m, **real) for n, m in zip(names[1:], measured, strict=True)])
    return top
