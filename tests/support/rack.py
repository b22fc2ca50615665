"""A made-up server before and after nearmetal, for benchmarks: 2 sockets, 64 CPUs, 16 NICs and GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trees
from ansible_collections.nearmetal.rack.plugins.module_utils import bootloader, cpulist, isolation, loop
from ansible_collections.nearmetal.rack.plugins.module_utils.capabilities import cpu_isolation
from ansible_collections.nearmetal.rack.plugins.module_utils.host import FileHost
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.document import observe
from ansible_collections.nearmetal.rack.plugins.modules import hugepages
from ansible_collections.nearmetal.rack.plugins.plugin_utils.intent import CAPABILITIES, read_intent

BASE = "BOOT_IMAGE=/vmlinuz-6.12.0 root=UUID=00000000-0000-4000-8000-000000000001 ro quiet"
WORDS = (
    "transparent_hugepage=madvise", "skew_tick=1", "tsc=reliable", "nosoftlockup", "nmi_watchdog=0", "mce=off", "audit=0",
    "intel_pstate=disable", "processor.max_cstate=1", "intel_idle.max_cstate=0", "idle=poll", "pcie_aspm=off",
    "numa_balancing=disable", "rcupdate.rcu_normal_after_boot=1", "nohz=on", "selinux=0", "random.trust_cpu=on",
    "psi=0", "console=tty0", "console=ttyS0,115200", "net.ifnames=0", "mitigations=off", "workqueue.power_efficient=0",
    "nvme_core.io_timeout=4294967295", "pci=realloc", "split_lock_detect=off", "kvm.nx_huge_pages=off",
)  # fmt: skip
VARIABLES: dict[str, Any] = {
    "iommu_mode": "passthrough",
    "cpu_isolation_mode": "kernel",
    "cpu_isolation_reserved_cores_per_node": 2,
    "hugepages_pages": [
        {"size": "2M", "node": 0, "count": 512}, {"size": "2M", "node": 1, "count": 256},
        {"size": "1G", "node": 0, "count": 8}, {"size": "1G", "node": 1, "count": 4},
    ],
    "kernel_args_present": list(WORDS),
}  # fmt: skip
"""About 40 settings, as many as the stock playbook has tasks."""


def intent() -> dict[str, dict[str, Any]]:
    """The variables as nearmetal reads them."""
    found, problems = read_intent(VARIABLES, lambda value: value)
    if problems:
        raise SystemExit(str(problems))
    return found


def server(cmdline: str = BASE, **changes: Any) -> trees.Tree:
    """The tree of one such server."""
    tree = trees.build(sockets=2, nodes=2, cores=16, threads=2, memory_gib=512, irqs=200, cmdline=cmdline, **changes)
    for number in range(16):
        node = number // 8
        kind = {"class_": "0x020000", "vfs": (0, 16), "netdev": f"ens{number}"} if number % 2 else {"class_": "0x030200"}
        trees.pci(tree, f"0000:{0x17 + number:02x}:00.0", node=node, group=number, **kind)
    tree.folders.append("/sys/class/iommu/dmar0")
    tree.files["/etc/default/grub"] = 'GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX=""\n'
    line = cmdline.partition(" ")[2]
    tree.files["/boot/grub/grub.cfg"] = (
        'set default="0"\n### BEGIN /etc/grub.d/10_linux ###\n'
        f"menuentry 'Debian' --id deb {{\n\tlinux\t/vmlinuz-6.12.0 {line}\n\tinitrd\t/initrd.img\n}}\n"
        "### END /etc/grub.d/10_linux ###\n"
    )
    return tree


def factory_state() -> dict[str, Any]:
    """What is observed before anything was done."""
    return dict(observe(server().host(live=True)))


def write_converged(root: Path) -> None:
    """A server on which everything is done, at `root`. SystemExit where nearmetal does not think so."""
    server().write(root)
    host = FileHost(str(root))
    state = observe(host)
    plan = loop.decide(intent(), state, CAPABILITIES)
    asked = plan["calls"]["kernel_args"]["args"]
    bootloader.ensure(host, asked["args"], asked["absent"])
    hugepages.converge(host, plan["calls"]["hugepages"]["args"], check=False)
    want = cpu_isolation.desired(intent()["cpu_isolation"], state)
    isolation.apply(host, want, state)
    (root / "proc/cmdline").write_text("BOOT_IMAGE=/vmlinuz-6.12.0 " + str(observe(host)["boot"]["configured"]) + "\n")
    for name in ("isolated", "nohz_full"):
        (root / "sys/devices/system/cpu" / name).write_text(cpulist.format(want.isolated) + "\n")
    for page in VARIABLES["hugepages_pages"]:
        size = {"2M": 2048, "1G": 1048576}[page["size"]]
        pool = root / f"sys/devices/system/node/node{page['node']}/hugepages/hugepages-{size}kB"
        for name in ("nr_hugepages", "free_hugepages"):
            (pool / name).write_text(f"{page['count']}\n")
    left = loop.decide(intent(), observe(FileHost(str(root))), CAPABILITIES)
    if left["status"] != "ok":
        raise SystemExit(f"the converged server is not converged: {left['steps'] or left['problems']}")
