"""What must be there before a rack can start, and what to install if it is not."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from ..errors import NearmetalError

QEMU = "qemu-system-x86_64"
#: QEMU 8.0 brought igb, the emulated network card with SR-IOV.
QEMU_NEEDED = (8, 0)
#: What one node may come to take beyond its own memory: QEMU itself and translated code.
QEMU_OVERHEAD_MIB = 350
BUILD_GIB, NODE_GIB = 8, 3

RUN_TOOLS = {"qemu-img": "qemu-utils", "ssh": "openssh-client", "ssh-keygen": "openssh-client"}
BUILD_TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "sgdisk": "gdisk",
    "mke2fs": "e2fsprogs",
    "mformat": "mtools",
    "qemu-img": "qemu-utils",
    "tar": "tar",
}
KEYRINGS = Path("/usr/share/keyrings")
QEMU_SOURCES = (
    "the package qemu-system-x86 of Debian 13 and Ubuntu 24.04 is new enough, "
    "on Debian 12 take it from backports: apt-get install -t bookworm-backports qemu-system-x86 qemu-utils"
)


def which(tool: str) -> str | None:
    """Path of a tool; system folders count even where a user's PATH lacks them."""
    return shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def missing_packages(tools: dict[str, str]) -> list[str]:
    """Debian packages of the tools that are not there."""
    return sorted({package for tool, package in tools.items() if not which(tool)})


def check_build_tools() -> None:
    """Raise NearmetalError naming the packages that building the image needs and this machine lacks."""
    tools = dict(BUILD_TOOLS)
    if os.geteuid() != 0:
        tools |= {"unshare": "util-linux", "newuidmap": "uidmap"}
    missing = missing_packages(tools)
    if not any(KEYRINGS.glob("debian-archive-keyring.*")):
        missing.append("debian-archive-keyring")
    if missing:
        raise NearmetalError(
            f"Building the node image needs packages that are not installed: apt-get install {' '.join(missing)}"
        )


def parse_version(text: str) -> tuple[int, int]:
    """Major and minor number from `qemu-system-x86_64 --version`."""
    found = re.search(r"version (\d+)\.(\d+)", text)
    if not found:
        raise NearmetalError(f"{QEMU} --version says {text.strip()[:80]!r}, which names no version")
    return int(found[1]), int(found[2])


def qemu_version() -> tuple[int, int]:
    """Version of the installed QEMU. Raises NearmetalError if there is none or it is too old for the rack."""
    if not which(QEMU):
        raise NearmetalError(f"The virtual rack needs QEMU, and {QEMU} is not there: {QEMU_SOURCES}")
    done = subprocess.run([QEMU, "--version"], capture_output=True, text=True, check=False)
    version = parse_version(done.stdout or done.stderr)
    if version < QEMU_NEEDED:
        raise NearmetalError(
            f"QEMU {version[0]}.{version[1]} is too old: igb, the network card with SR-IOV, came with "
            f"{QEMU_NEEDED[0]}.{QEMU_NEEDED[1]}; {QEMU_SOURCES}"
        )
    return version


def check_run_tools() -> tuple[int, int]:
    """Raise NearmetalError if running a rack lacks a tool; return QEMU's version."""
    version = qemu_version()
    if missing := missing_packages(RUN_TOOLS):
        raise NearmetalError(
            f"The virtual rack needs packages that are not installed: apt-get install {' '.join(missing)}"
        )
    return version


def available_mib(meminfo: str) -> int:
    """MemAvailable of /proc/meminfo in MiB."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo, re.MULTILINE)
    return int(found[1]) // 1024 if found else 0


def check_memory(node_mib: Iterable[int], meminfo: str | None = None) -> None:
    """Raise NearmetalError if nodes of these sizes (MiB) do not fit into the memory that is available now."""
    sizes = list(node_mib)
    need = sum(size + QEMU_OVERHEAD_MIB for size in sizes)
    have = available_mib(Path("/proc/meminfo").read_text() if meminfo is None else meminfo)
    if need > have:
        raise NearmetalError(
            f"Not enough memory: {len(sizes)} nodes need {need} MiB, {have} MiB are available. "
            "End other programs or other racks (nearmetal lab down --name NAME)."
        )


def check_disk(folder: Path, gib: float) -> None:
    """Raise NearmetalError if the file system of `folder` has less than `gib` GiB free."""
    free = shutil.disk_usage(folder).free / 2**30
    if free < gib:
        raise NearmetalError(f"Not enough disk space: {gib:g} GiB are needed in {folder}, {free:.1f} GiB are free.")
