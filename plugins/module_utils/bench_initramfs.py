# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The initramfs of the benchmark guest: busybox, stress-ng with its libraries, and an init.

The archive is written here, in the format "newc" of cpio(5) that the kernel unpacks, uncompressed:
decompression would cost more at boot than it saves.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Dict, Iterable, List, Mapping, NamedTuple, Tuple, Union

from .bench_scenarios import BenchError
from .host import Host, HostError

APPLETS = ("sh", "mount", "cat", "echo", "grep", "head", "tr", "stty", "sleep", "cut", "nproc", "printf")

INIT = """#!/bin/sh
export PATH=/bin:/usr/bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmp /tmp
exec </dev/@CONSOLE@ >/dev/@CONSOLE@ 2>&1
stty raw -echo
now() { cut -d' ' -f1 /proc/uptime; }
siblings=$(cat /sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list | tr '\\n' ' ')
echo "{\\"ready\\": true, \\"cpus\\": $(nproc), \\"siblings\\": \\"$siblings\\", \\"uptime\\": $(now)}"
while read -r word id call; do
  case $word in
  run)
    start=$(now)
    $call >/tmp/out 2>&1
    rc=$?
    end=$(now)
    said=$(grep -v '^$' /tmp/out | tr '\\n\\t\\\\"' '|  .' | tr -cd ' -~')
    echo "{\\"id\\": $id, \\"rc\\": $rc, \\"start\\": $start, \\"end\\": $end, \\"said\\": \\"$said\\"}"
    ;;
  esac
done
"""
"""Speaks lines. First what the guest sees of itself; then every `run N COMMAND...` is answered by
{"id": N, "rc", "start", "end" (seconds of uptime), "said" (output, line ends as |)}."""

DIRECTORY, FILE, LINK, DEVICE = stat.S_IFDIR, stat.S_IFREG, stat.S_IFLNK, stat.S_IFCHR


class Entry(NamedTuple):
    """One member of the archive."""

    path: str  # without a leading slash
    mode: int  # type and permissions
    data: bytes = b""
    device: Tuple[int, int] = (0, 0)  # major, minor


def newc(entries: Iterable[Entry]) -> bytes:
    """The archive of the entries in this order."""
    parts: List[bytes] = []
    for number, entry in enumerate([*entries, Entry("TRAILER!!!", 0)], start=1):
        name = entry.path.encode() + b"\0"
        fields = (
            number, entry.mode, 0, 0, 1, 0, len(entry.data), 0, 0, entry.device[0], entry.device[1], len(name), 0,
        )  # fmt: skip
        header = b"070701" + b"".join(b"%08X" % f for f in fields)
        parts += [_padded(header + name), _padded(entry.data)]
    return b"".join(parts)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def parse_ldd(text: str) -> List[str]:
    """Paths of the libraries and the loader in the output of ldd; the vdso has none.

    Raises ValueError naming a library that was not found.
    """
    paths = []
    for line in text.splitlines():
        if "not found" in line:
            raise ValueError("library %s is not installed" % line.split()[0])
        found = re.search(r"(?:=>\s*)?(/\S+)\s+\(0x", line)
        if found:
            paths.append(found.group(1))
    return paths


def layout(files: Mapping[str, Union[bytes, str]], console: str) -> List[Entry]:
    """Members of the archive: folders first, then /dev/console, init, applets and files.

    files: absolute path in the guest -> content of an executable file.
    """
    names = {path.strip("/") for path in files}
    folders = {"dev", "proc", "sys", "tmp", "bin"}
    for name in names:
        parts = name.split("/")[:-1]
        folders |= {"/".join(parts[: i + 1]) for i in range(len(parts))}
    entries = [Entry(folder, DIRECTORY | 0o755) for folder in sorted(folders)]
    entries.append(Entry("dev/console", DEVICE | 0o600, device=(5, 1)))
    entries.append(Entry("init", FILE | 0o755, INIT.replace("@CONSOLE@", console).encode()))
    entries += [Entry("bin/" + applet, LINK | 0o777, b"busybox") for applet in APPLETS]
    for path, data in sorted(files.items()):
        content = data if isinstance(data, bytes) else data.encode()
        entries.append(Entry(path.strip("/"), FILE | 0o755, content))
    return entries


def build(host: Host, stress_ng: str, busybox: str, console: str) -> bytes:
    """The archive from the programs of this host. Raises BenchError."""
    files: Dict[str, Union[bytes, str]] = {}
    try:
        files["/bin/busybox"] = host.read_bytes(busybox)
        files["/usr/bin/stress-ng"] = host.read_bytes(stress_ng)
        for path in parse_ldd(host.run(["ldd", stress_ng]).stdout):
            files[path] = host.read_bytes(path)
        if host.run(["ldd", busybox]).rc == 0:
            raise BenchError("%s needs shared libraries; install the package busybox-static" % busybox)
    except (HostError, ValueError) as err:
        raise BenchError("cannot build the guest's initramfs: %s" % err) from None
    return newc(layout(files, console))


def kernel_image(host: Host, release: str) -> str:
    """Path of the running kernel's image. Raises BenchError."""
    candidates = ["/boot/vmlinuz-%s" % release, "/usr/lib/modules/%s/vmlinuz" % release]
    for path in candidates:
        if host.exists(path):
            return path
    raise BenchError("no image of the running kernel: neither %s is there" % " nor ".join(candidates))


def write_private(path: str, data: bytes) -> None:
    """Write a file that QEMU's user may read."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    with os.fdopen(fd, "wb") as f:
        f.write(data)
