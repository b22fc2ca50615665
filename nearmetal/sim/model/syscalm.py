"""/proc and /sys as far as they rarely change: kernel, memory, control groups, interrupts."""

from __future__ import annotations

import errno
from typing import Any

from . import boot, osfiles, sriov
from .hardware import cpus_of
from .layer import Layer
from .sysstatic import mask, parse, ranges

State = dict[str, Any]

CGROUP = "/sys/fs/cgroup"
BUS = "/sys/bus/pci"


def key(state: State) -> str:
    """Changes whenever the layer does."""
    drivers = [pf["driver"] + pf["netdev"] for pf in state["pfs"].values()]
    active = [name for name, unit in state["units"].items() if unit.get("active") == "active"]
    parts_ = (
        state["boot"],
        state["pages"],
        state["irqs"],
        state["cpusets"],
        state["bios"],
        state.get("thp"),
        state.get("modules"),
    )
    return repr((parts_, drivers, active))


def layer(state: State) -> Layer:
    """The layer of what rarely changes: kernel, memory, control groups, interrupts."""
    found = Layer()
    _kernel(found, state)
    _memory(found, state)
    _cgroups(found, state)
    _irqs(found, state)
    return found


def _kernel(found: Layer, state: State) -> None:
    now, since = state["boot"], state["boot"]["at"]
    words = boot.arguments(now["cmdline"])
    found.file("/proc/cmdline", now["cmdline"] + "\n")
    found.file("/proc/uptime", lambda: f"{max(0.0, state['now'] - since):.2f} 100.00\n")
    found.file("/proc/version", f"Linux version {now['release']} (debian-kernel@lists.debian.org)\n")
    found.file("/proc/sys/kernel/osrelease", now["release"] + "\n")
    found.file("/proc/sys/kernel/hostname", state["name"] + "\n")
    found.file("/proc/sys/kernel/random/boot_id", now["id"] + "\n")
    for name in ("compact_memory", "drop_caches"):
        found.file(f"/proc/sys/vm/{name}", "")
    found.file(
        f"/proc/{osfiles.SHELL}/environ", f"LC_ALL=C\0SSH_CONNECTION={osfiles.ssh_connection(state)}\0"
    )
    found.file(f"/proc/{osfiles.SHELL}/stat", f"{osfiles.SHELL} (python3) S 1 1 1 0\n")
    modes = ("none", "integrity", "confidentiality")
    chosen = " ".join(f"[{mode}]" if mode == now.get("lockdown", "none") else mode for mode in modes)
    found.file("/sys/kernel/security/lockdown", chosen + "\n")
    for argument, name in (("isolcpus", "isolated"), ("nohz_full", "nohz_full")):
        found.file(f"/sys/devices/system/cpu/{name}", _isolated(state, words, argument) + "\n")
    if state["bios"]["iommu"]:
        found.file("/sys/firmware/acpi/tables/DMAR", b"DMAR")
    found.folder("/sys/firmware/acpi/tables")
    modules = sorted(name.replace("-", "_") for name in sriov.loaded(state))
    found.file("/proc/modules", "".join(f"{name} 16384 0 - Live 0x0000000000000000\n" for name in modules))
    for driver in sorted(sriov.loaded(state)):
        for name in ("bind", "unbind", "new_id", "remove_id"):
            found.file(f"{BUS}/drivers/{driver}/{name}", errno.EACCES)
    found.file(f"{BUS}/drivers_probe", errno.EACCES)
    for name in sorted(sriov.loaded(state)):
        found.folder(f"/sys/module/{name.replace('-', '_')}")


def _isolated(state: State, words: dict[str, list[str]], argument: str) -> str:
    """Isolcpus with flags but without `domain` isolates nothing (kernel/sched/isolation.c)."""
    value = (words.get(argument) or [""])[-1]
    flags = [item for item in value.split(",") if item[:1].isalpha()]
    if not value or argument == "isolcpus" and flags and "domain" not in flags:
        return ""
    try:
        cpus = parse(",".join(item for item in value.split(",") if not item[:1].isalpha()))
    except ValueError:
        return ""
    return ranges([cpu for cpu in cpus if cpu in set(boot.all_cpus(state))])


def _memory(found: Layer, state: State) -> None:
    sizes = {2048: "2048", 1048576: "1048576"}
    default = boot.SIZES.get(
        (boot.arguments(state["boot"]["cmdline"]).get("default_hugepagesz") or ["2M"])[-1], 2048
    )
    kb = state["hw"]["memory_gib"] * 1048576
    found.file(
        "/proc/meminfo",
        f"MemTotal:       {kb} kB\nMemFree:        {kb // 2} kB\nHugepagesize:       {default} kB\n",
    )
    for size in sizes:
        every = 0
        for node in range(state["hw"]["sockets"]):
            total, used = state["pages"].get(f"{node}/{size}", [0, 0])
            every += total
            base = f"/sys/devices/system/node/node{node}/hugepages/hugepages-{size}kB"
            for name, value in (("nr", total), ("free", total - used), ("surplus", 0)):
                found.file(f"{base}/{name}_hugepages", f"{value}\n")
        base = f"/sys/kernel/mm/hugepages/hugepages-{size}kB"
        for name, value in (("nr", every), ("free", every), ("surplus", 0)):
            found.file(f"{base}/{name}_hugepages", f"{value}\n")
    chosen = state.get("thp", "madvise")
    text = " ".join(f"[{word}]" if word == chosen else word for word in ("always", "madvise", "never"))
    found.file("/sys/kernel/mm/transparent_hugepage/enabled", text + "\n")


def _cgroups(found: Layer, state: State) -> None:
    found.file(f"{CGROUP}/cgroup.controllers", "cpuset cpu io memory hugetlb pids rdma misc\n")
    every = ranges(boot.all_cpus(state))
    for unit in boot.UNITS:
        found.folder(f"{CGROUP}/{unit}")
        found.file(f"{CGROUP}/{unit}/cpuset.cpus", state["cpusets"].get(unit, "") + "\n")
        found.file(f"{CGROUP}/{unit}/cpuset.cpus.effective", (state["cpusets"].get(unit) or every) + "\n")
    for name in osfiles.services(state):
        if state["units"].get(name, {}).get("active") == "active":
            found.folder(f"{CGROUP}/system.slice/{name}")


def irq_table(state: State) -> list[tuple[int, str, int | None]]:
    """Interrupts: number, handler, NUMA node of their device."""
    found: list[tuple[int, str, int | None]] = [(9, "acpi", None), (16, "i801_smbus", None)]
    number = 64
    for pf, known in sorted(state["pfs"].items()):
        if known["driver"]:
            for queue in range(8):
                name = (
                    f"mlx5_comp{queue}@pci:{pf}"
                    if known["kind"] == "mlx5"
                    else f"{known['netdev']}-TxRx-{queue}"
                )
                found.append((number, name, known["node"]))
                number += 1
    return found


def _irqs(found: Layer, state: State) -> None:
    every = boot.all_cpus(state)
    default = parse(state["irqs"]["default"]) or every
    found.file("/proc/irq/default_smp_affinity", mask(default, len(every)) + "\n")
    count, table = len(every), irq_table(state)
    nodes = [frozenset(cpus_of(state["hw"], node)) for node in range(state["hw"]["sockets"])]
    near: dict[tuple[str, int | None], tuple[str, str, list[int]]] = {}
    for number, name, node in table:
        text = state["irqs"]["affinity"].get(str(number), "")
        if (text, node) not in near:
            allowed = parse(text) or default
            local = [cpu for cpu in allowed if node is not None and cpu in nodes[node]] or allowed
            near[text, node] = (ranges(allowed) + "\n", mask(allowed, count) + "\n", local)
        listed, masked, local = near[text, node]
        base = f"/proc/irq/{number}"
        found.file(f"{base}/smp_affinity_list", listed)
        found.file(f"{base}/smp_affinity", masked)
        found.file(f"{base}/effective_affinity_list", f"{local[number % len(local)]}\n")
        found.file(f"{base}/node", f"{node or 0}\n")
        found.folder(f"{base}/{name}")
        found.file(f"/sys/kernel/irq/{number}/actions", name + "\n")
    found.file("/proc/interrupts", lambda: _interrupts(every, table))


def _interrupts(every: list[int], table: list[tuple[int, str, int | None]]) -> str:
    lines = [" " * 11 + " ".join(f"CPU{cpu:<7}" for cpu in every)]
    zeros = " ".join(["         0"] * len(every))
    lines += [
        f"{number:>4}: {zeros} IR-PCI-MSIX-0000:00:00.0   {number}-edge      {name}"
        for number, name, _node in table
    ]
    return "\n".join(lines) + "\n"
