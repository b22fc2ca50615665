"""A small running system for the tests of modules: files in memory, and what systemd and the kernel do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ansible_collections.nearmetal.rack.plugins.module_utils import cpulist, irq, slices
from ansible_collections.nearmetal.rack.plugins.module_utils.host import HostError, Result, SnapshotHost

CPU, NODE = "/sys/devices/system/cpu", "/sys/devices/system/node"


def tree(pages: int = 0) -> dict[str, Any]:
    """Two nodes, four cores, eight CPUs, interrupts 24 to 26; pages: 2M pages of each node."""
    files: dict[str, Any] = {
        "/proc/cmdline": "quiet\n",
        "/proc/meminfo": "MemTotal: 8388608 kB\nHugepagesize: 2048 kB\n",
        "/proc/interrupts": "".join(f" {n}: PCI-MSI {n}-edge {name}\n" for n, name in IRQS.items()),
        "/proc/irq/default_smp_affinity": "ff\n",
        "/proc/sys/kernel/osrelease": "6.12.5\n",
        f"{CPU}/online": "0-7\n", f"{CPU}/present": "0-7\n", f"{CPU}/possible": "0-7\n",
        "/sys/fs/cgroup/cgroup.controllers": "cpuset cpu memory\n",
        "/sys/fs/cgroup/system.slice/irqbalance.service/cgroup.procs": "1\n",
        "/run/systemd/system/x": "", "/usr/lib/systemd/system/irqbalance.service": "",
        "/proc/sys/vm/compact_memory": "", "/proc/sys/vm/drop_caches": "",
    }  # fmt: skip
    for cpu in range(8):
        topology = f"{CPU}/cpu{cpu}/topology/"
        files[topology + "thread_siblings_list"] = f"{cpu % 4},{cpu % 4 + 4}\n"
        files[topology + "core_id"] = f"{cpu % 4}\n"
        files[topology + "physical_package_id"] = "0\n"
    for node in (0, 1):
        files[f"{NODE}/node{node}/cpulist"] = ("0-1,4-5\n", "2-3,6-7\n")[node]
        files[f"{NODE}/node{node}/meminfo"] = f"Node {node} MemTotal: 4194304 kB\n"
        pool = f"{NODE}/node{node}/hugepages/hugepages-2048kB/"
        for kind, count in (("nr", pages), ("free", pages), ("surplus", 0)):
            files[pool + f"{kind}_hugepages"] = f"{count}\n"
    files[f"{NODE}/online"] = "0-1\n"
    for number in IRQS:
        files[f"/proc/irq/{number}/smp_affinity_list"] = "0-7\n"
        files[f"/proc/irq/{number}/effective_affinity_list"] = f"{number - 23}\n"
    return files


IRQS = {24: "eth0-rx-0", 25: "nvme0q1", 26: "eth0-rx-1"}


class System(SnapshotHost):
    """managed: interrupts that the kernel keeps. room: how many 2M pages a node has memory for."""

    def __init__(self, files: dict[str, Any], managed: Sequence[int] = (), room: int = 10**6) -> None:
        super().__init__(files, live=True)
        self.managed, self.room = managed, room
        self.log: list[str] = []
        self.ignore: set[str] = set()
        self.controller_stays = False  # another unit keeps cpusets on: those of ours stay as they were

    def write(self, path: str, text: str, mode: int | None = None, in_place: bool = False) -> None:
        self.files[path] = text
        self._add(path)
        self.log.append(f"write {path}")

    def remove(self, path: str) -> None:
        if self.files.pop(path, None) is not None:
            parent, _sep, name = path.rpartition("/")
            self._dirs[parent].pop(name)
            self.log.append(f"remove {path}")

    def poke(self, path: str, text: str) -> None:
        if path not in self.files:
            raise HostError(path, "No such file or directory")
        self.log.append(f"poke {path} {text}")
        if path.endswith("cpuset.cpus"):
            if not text.strip():
                raise HostError(path, "No space left on device")  # as the kernel does where processes are
            self.files[path] = self.files[path + ".effective"] = text
        match = re.search(r"hugepages-2048kB/nr_hugepages$", path)
        if match:
            count = min(int(text), self.room)
            self.files[path] = self.files[path.replace("nr_", "free_")] = f"{count}\n"

    def run(self, argv: Sequence[str], timeout: float = 300, stdin: str = "") -> Result:
        command = " ".join(argv)
        self.log.append(command)
        if command in self.ignore:
            return Result(0, "", "")
        if command == "systemctl daemon-reload":
            self._reload()
        elif command == f"systemctl restart {irq.SERVICE}":
            self._steer(re.search(r"\*\) want=(\S+)", self.files[irq.SCRIPT]).group(1))  # type: ignore[union-attr]
        elif command == f"/bin/sh {irq.SCRIPT} release":
            self._steer("0-7")
        return Result(0, "", "")

    def _reload(self) -> None:
        for unit in slices.UNITS:
            where = f"/sys/fs/cgroup/{unit}/cpuset.cpus"
            text = self.files.get(slices.path(unit))
            for path in (where, where + ".effective"):
                if text is None:
                    if not self.controller_stays:
                        self.remove(path)
                else:
                    self.files[path] = text.rpartition("AllowedCPUs=")[2]
                    self._add(path)

    def _steer(self, cpus: str) -> None:
        self.files["/proc/irq/default_smp_affinity"] = cpulist.format_map(cpulist.parse(cpus)) + "\n"
        for number in set(IRQS) - set(self.managed):
            self.files[f"/proc/irq/{number}/smp_affinity_list"] = cpus + "\n"
            self.files[f"/proc/irq/{number}/effective_affinity_list"] = f"{min(cpulist.parse(cpus))}\n"
        self.files[irq.UNMOVABLE] = "".join(f"{n} {IRQS[n]}\n" for n in self.managed)
        self._add(irq.UNMOVABLE)
