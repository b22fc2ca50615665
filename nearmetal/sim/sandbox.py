"""A process that must not touch this machine: its view of the file system is read-only but for one folder."""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS = 0x00020000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 1 << 18
AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = -100, 0x8000, 1
SYS_MOUNT_SETATTR = 442
"""The same number on all architectures (since Linux 5.12)."""

_libc: ctypes.CDLL | None = None


def prepare() -> None:
    """Load what `enter` needs: it runs between fork and exec, where nothing is to be imported any more."""
    global _libc  # noqa: PLW0603
    _libc = _libc or ctypes.CDLL(None, use_errno=True)


def enter(writable: str) -> bool:
    """Make everything but `writable` read-only for this process. False where the kernel forbids it."""
    if _libc is None:
        return False
    try:
        os.unshare(CLONE_NEWNS)
    except OSError:
        return False
    folder = writable.encode()
    if _libc.mount(b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None):
        return False
    if _libc.mount(folder, folder, None, ctypes.c_ulong(MS_BIND), None):
        return False
    return _readonly(b"/", True, True) and _readonly(folder, False, False)


def _readonly(path: bytes, on: bool, recursive: bool) -> bool:
    assert _libc is not None
    attributes = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY if on else 0, 0 if on else MOUNT_ATTR_RDONLY, 0, 0)
    flags = AT_RECURSIVE if recursive else 0
    return bool(
        _libc.syscall(
            SYS_MOUNT_SETATTR, AT_FDCWD, path, flags, ctypes.byref(attributes), ctypes.sizeof(attributes)
        )
        == 0
    )
