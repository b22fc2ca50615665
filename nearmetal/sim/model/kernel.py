"""Writes to attributes of /proc and /sys, by the canonical path. Sources: those of the functions that are called."""

from __future__ import annotations

import errno
import re
from typing import Any

from . import boot, net, sriov
from .errors import Refusal, invalid
from .sysstatic import parse, ranges

State = dict[str, Any]
Files = Any

DEVICE = re.compile(
    r"/sys/devices/pci[^/]+(?:/[^/]+)*/([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/([a-z_]+)"
)
DRIVER = re.compile(r"/sys/bus/pci/drivers/([^/]+)/(bind|unbind|new_id|remove_id)")
PAGES = re.compile(r"/sys/devices/system/node/node(\d+)/hugepages/hugepages-(\d+)kB/nr_hugepages")
IRQ = re.compile(r"/proc/irq/(\d+)/(smp_affinity_list|smp_affinity)")
CPUSET = re.compile(r"/sys/fs/cgroup/([^/]+)/cpuset\.cpus")
MTU = re.compile(r"/sys/.*/net/([^/]+)/mtu")


def poke(state: State, path: str, text: str) -> None:
    """Write `text` to an attribute. Raises Refusal."""
    for pattern, handler in HANDLERS:
        match = pattern.fullmatch(path)
        if match:
            handler(state, match, text)
            return
    raise Refusal(errno.EACCES)


def _device(state: State, match: re.Match[str], text: str) -> None:
    address, name = match[1], match[2]
    if name == "driver_override":
        sriov.set_override(state, address, text)
    elif name == "reset":
        pass  # a function-level reset leaves nothing behind that is modelled
    elif address in state["pfs"] and sriov.total(state, address):
        if name == "sriov_numvfs":
            sriov.set_count(state, address, text)
        elif name == "sriov_drivers_autoprobe":
            if text.strip() not in ("0", "1", "Y", "N", "y", "n"):
                raise invalid()
            state["pfs"][address]["autoprobe"] = text.strip() in ("1", "Y", "y")
        else:
            raise Refusal(errno.EACCES)
    else:
        raise Refusal(errno.EACCES)


def _driver(state: State, match: re.Match[str], text: str) -> None:
    driver, name = match[1], match[2]
    if driver not in sriov.loaded(state):
        raise Refusal(errno.ENOENT)
    if name == "bind":
        sriov.bind(state, driver, text.strip())
    elif name == "unbind":
        sriov.unbind(state, driver, text.strip())
    else:
        known = state.setdefault("new_ids", {}).setdefault(driver, [])
        ids = " ".join(text.split()[:2]).lower()
        if name == "new_id":
            known.append(ids)
        elif ids in known:
            known.remove(ids)
        else:
            raise Refusal(errno.ENODEV)


def _probe(state: State, match: re.Match[str], text: str) -> None:
    sriov.probe(state, text.strip())


def _pages(state: State, match: re.Match[str], text: str) -> None:
    if not text.strip().isdigit():
        raise invalid()
    boot.set_pages(state, int(match[1]), int(match[2]), int(text))


def _irq(state: State, match: re.Match[str], text: str) -> None:
    try:
        cpus = (
            parse(text)
            if match[2] == "smp_affinity_list"
            else [at for at in range(1024) if int(text.replace(",", ""), 16) >> at & 1]
        )
    except ValueError:
        raise invalid() from None
    if match[1] == "16" and "irq-stuck" in state["faults"]:
        raise Refusal(errno.EIO)
    state["irqs"]["affinity"][match[1]] = ranges(cpus)


def _default_irq(state: State, match: re.Match[str], text: str) -> None:
    value = int(text.strip().replace(",", ""), 16)
    state["irqs"]["default"] = ranges([at for at in range(value.bit_length()) if value >> at & 1])


def _cpuset(state: State, match: re.Match[str], text: str) -> None:
    if match[1] not in boot.UNITS:
        raise Refusal(errno.ENOENT)
    cpus = parse(text)
    if not cpus and state["cpusets"].get(match[1]):
        raise Refusal(errno.ENOSPC)
    state["cpusets"][match[1]] = ranges(cpus)


def _mtu(state: State, match: re.Match[str], text: str) -> None:
    net.set_mtu(state, match[1], int(text))


def _thp(state: State, match: re.Match[str], text: str) -> None:
    if text.strip() not in ("always", "madvise", "never"):
        raise invalid()
    state["thp"] = text.strip()


HANDLERS: list[tuple[re.Pattern[str], Any]] = [
    (MTU, _mtu),
    (DEVICE, _device),
    (DRIVER, _driver),
    (re.compile("/sys/bus/pci/drivers_probe"), _probe),
    (PAGES, _pages),
    (IRQ, _irq),
    (re.compile("/proc/irq/default_smp_affinity"), _default_irq),
    (CPUSET, _cpuset),
    (re.compile("/proc/sys/vm/(?:compact_memory|drop_caches)"), lambda state, match, text: None),
    (re.compile("/sys/kernel/mm/transparent_hugepage/enabled"), _thp),
]
