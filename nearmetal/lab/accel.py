"""KVM or TCG: decided by booting a tiny guest, because /dev/kvm may be there, open, and still fail."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import tempfile
from pathlib import Path

from .. import paths
from .preflight import QEMU

EXIT_PORT, EXIT_VALUE = 0x501, 0x15
#: isa-debug-exit ends QEMU with (value << 1) | 1.
EXIT_STATUS = (EXIT_VALUE << 1) | 1
TIMEOUT_S = 20

# mov dx, EXIT_PORT; mov al, EXIT_VALUE; out dx, al; hlt
BOOT_SECTOR = (b"\xba" + EXIT_PORT.to_bytes(2, "little") + b"\xb0" + bytes([EXIT_VALUE]) + b"\xee\xf4").ljust(
    510, b"\0"
) + b"\x55\xaa"


def boots(accel: str) -> bool:
    """Whether a guest of one sector runs to its end with this accelerator."""
    with tempfile.TemporaryDirectory() as work:
        sector = Path(work) / "boot"
        sector.write_bytes(BOOT_SECTOR)
        argv = [
            QEMU, "-nodefaults", "-machine", "q35", "-accel", accel, "-cpu", "max", "-m", "16", "-display", "none",
            "-drive", f"if=ide,format=raw,readonly=off,snapshot=on,file={sector}",
            "-device", f"isa-debug-exit,iobase={EXIT_PORT:#x},iosize=1",
        ]  # fmt: skip
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return False
    return done.returncode == EXIT_STATUS


def _key(version: str) -> str:
    usable = os.access("/dev/kvm", os.R_OK | os.W_OK)
    return hashlib.sha256(json.dumps([platform.uname()[2:], version, usable]).encode()).hexdigest()[:16]


def choose(version: str) -> str:
    """"kvm" where it works, else "tcg". The answer is remembered per kernel and QEMU version."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    memory = paths.cache_dir() / "accel.json"
    try:
        known = dict(json.loads(memory.read_text()))
    except (OSError, ValueError):
        known = {}
    key = _key(version)
    if known.get(key) not in ("kvm", "tcg"):
        known[key] = "kvm" if boots("kvm") else "tcg"
        memory.parent.mkdir(parents=True, exist_ok=True)
        fresh = memory.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(known))
        fresh.replace(memory)
    return str(known[key])
