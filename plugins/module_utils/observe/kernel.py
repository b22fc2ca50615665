# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel, the operating system, and what nearmetal itself left on the host."""

from __future__ import annotations

import json
import re
from typing import Dict, Optional

from ..state import Kernel, LastReboot, Os
from .reader import Reader, chosen

REBOOT_FILE = "/var/lib/nearmetal/reboot.json"
SECONDS = re.compile(r"\d+(\.\d+)?")
VERSION = re.compile(r"Linux version (\S+)")
IMAGE = re.compile(r"(?:^| )BOOT_IMAGE=\S*/vmlinu[xz]-(\S+)")
ESCAPED = re.compile(r"\\(.)")


def observe_kernel(reader: Reader) -> Kernel:
    """The `kernel` section."""
    cmdline = reader.text("/proc/cmdline", "kernel.cmdline")
    if cmdline is None:
        reader.note("kernel.cmdline", "/proc/cmdline is missing")
    uptime = (reader.text("/proc/uptime", "kernel.uptime") or "").split()
    return {
        "release": _release(reader, cmdline or ""),
        "cmdline": cmdline,
        "boot_id": reader.text("/proc/sys/kernel/random/boot_id", "kernel.boot_id") or "",
        "lockdown": chosen(reader.text("/sys/kernel/security/lockdown", "kernel.lockdown") or ""),
        "uptime_s": float(uptime[0]) if uptime and SECONDS.fullmatch(uptime[0]) else None,
    }


def _release(reader: Reader, cmdline: str) -> str:
    """The kernel's release; from its version line or its file's name where /proc has no better."""
    release = reader.text("/proc/sys/kernel/osrelease", "kernel.release")
    if release:
        return release
    version = VERSION.match(reader.text("/proc/version", "kernel.release") or "")
    image = IMAGE.search(cmdline)
    found = version or image
    if not found:
        reader.note("kernel.release", "/proc/sys/kernel/osrelease is missing")
    return found.group(1) if found else ""


def observe_os(reader: Reader) -> Os:
    """The `os` section, from os-release(5)."""
    text = reader.text("/etc/os-release", "os")
    if text is None:
        text = reader.text("/usr/lib/os-release", "os")
    if text is None:
        reader.note("os", "/etc/os-release is missing")
    fields = os_release(text or "")
    name = reader.text("/proc/sys/kernel/hostname", "os.hostname")
    if not name:
        name = reader.text("/etc/hostname", "os.hostname")
    return {
        "id": fields.get("ID", ""),
        "version_id": fields.get("VERSION_ID", ""),
        "name": fields.get("PRETTY_NAME") or fields.get("NAME", ""),
        "hostname": name or "",
        "systemd": reader.exists("/run/systemd/system") or reader.exists("/usr/lib/systemd/systemd"),
    }


def os_release(text: str) -> Dict[str, str]:
    """Assignments of os-release(5); quotes are taken off, nothing is executed."""
    fields = {}
    for line in text.splitlines():
        key, equals, value = line.strip().partition("=")
        if not equals or key.startswith("#"):
            continue
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            value = ESCAPED.sub(r"\1", value[1:-1])
        fields[key] = value
    return fields


def observe_kvm(reader: Reader) -> Optional[bool]:
    """Whether /dev/kvm is there; None for a tree without /dev."""
    if reader.exists("/dev/kvm"):
        return True
    return False if reader.host.live or reader.exists("/dev") else None


def observe_last_reboot(reader: Reader) -> Optional[LastReboot]:
    """What nearmetal wrote before the last reboot that it asked for; None where it never did."""
    text = reader.text(REBOOT_FILE, "last_reboot")
    if text is None:
        return None
    try:
        data = json.loads(text)
        return {key: str(data[key]) for key in ("boot_id", "reason", "wanted")}  # type: ignore[return-value]
    except (ValueError, KeyError, TypeError) as err:
        reader.note("last_reboot", "%s: %s" % (REBOOT_FILE, err))
        return None
