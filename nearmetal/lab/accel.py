"""KVM or TCG: decided by booting a guest, because /dev/kvm may be there, open, and still fail.

A few instructions in real mode are no proof: some hosts emulate those and never get a kernel up. So the
guest is the node's own kernel on the node's own machine, without a disk: it works if the kernel comes as far
as to complain that it has no root file system.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from pathlib import Path

from .. import paths
from .preflight import QEMU
from .progress import Progress
from .qemu import machine_options

# Where KVM works this takes three seconds; TCG needs about fifteen.
TIMEOUT_S = 25
ARRIVED = b"Unable to mount root fs"
APPEND = "console=ttyS0 panic=-1 no_timer_check tsc=reliable root=/dev/none"


def boots(accel: str, kernel: Path) -> bool:
    """Whether the kernel starts in time with this accelerator."""
    argv = [
        QEMU, *machine_options(accel), "-m", "512", "-smp", "8", "-display", "none", "-vga", "none", "-no-reboot",
        "-serial", "stdio", "-kernel", str(kernel), "-append", APPEND,
    ]  # fmt: skip
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return False
    return ARRIVED in done.stdout


def _key(version: str) -> str:
    usable = os.access("/dev/kvm", os.R_OK | os.W_OK)
    return hashlib.sha256(json.dumps([platform.uname()[2:], version, usable, APPEND]).encode()).hexdigest()[:16]


def choose(version: str, kernel: Path, progress: Progress) -> str:
    """"kvm" where it works, else "tcg". The answer is remembered per kernel and QEMU version of this machine."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    memory = paths.cache_dir() / "accel.json"
    try:
        known = dict(json.loads(memory.read_text()))
    except (OSError, ValueError):
        known = {}
    key = _key(version)
    if known.get(key) not in ("kvm", "tcg"):
        progress.say("trying whether KVM works here")
        known[key] = "kvm" if boots("kvm", kernel) else "tcg"
        progress.say("KVM works" if known[key] == "kvm" else "KVM does not work: TCG instead, several times slower")
        memory.parent.mkdir(parents=True, exist_ok=True)
        fresh = memory.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(known))
        fresh.replace(memory)
    return str(known[key])
