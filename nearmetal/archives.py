"""Captured trees: a folder, or a tar archive, that holds proc/ and sys/ of a host.

must-gather, sosreport, and the dumps of hwloc and lscpu have them at their top or some folders down.
Nothing is unpacked: an archive becomes a Host in memory, so a hostile one can write nowhere.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import tarfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from nearmetal import core
from nearmetal.errors import BAD_INTENT, NearmetalError

if TYPE_CHECKING:
    from ansible_collections.nearmetal.rack.plugins.module_utils.host import Host

MAX_FILE = 4 << 20
"""Bytes of one file; larger ones read as unreadable. /proc/interrupts of 256 CPUs has 2 MiB."""

MAX_TOTAL = 256 << 20
"""Bytes of all files together that are kept."""

MAX_UNPACKED = 16 << 30
"""Bytes that an archive may unpack to, kept or not: a bomb would go on for ever."""

MAX_MEMBERS = 2_000_000
MAX_DEPTH = 8
SIGNS = ("sys/devices/system/cpu", "proc/cpuinfo", "proc/cmdline", "proc/meminfo")
"""What tells a captured tree from any other folder with a proc/ or sys/ in it."""

NOTE = "nearmetal-capture.json"
"""What `nearmetal capture` adds: the files that could not be read, with the reasons."""

TOPS = frozenset(("proc", "sys", "etc", "boot", "usr", "var", "dev", "run", "lib"))
DAMAGED = (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError)


def tree_host(path: Path) -> Host:
    """The Host of a folder or archive; NearmetalError (exit 65) where it is no captured tree."""
    if not path.exists():
        raise NearmetalError(f"{path} does not exist: give a folder or archive with a host's proc/ and sys/", BAD_INTENT)
    if path.is_dir():
        root = os.path.join(path, _one_root(path, _folder_roots(path)))
        host: Host = core.module("host").FileHost(root)
        return host
    return _archive_host(path)


def _one_root(path: Path, roots: Iterable[str]) -> str:
    """The tree nearest to the top; refuses none, and several that are equally near."""
    found = sorted(set(roots), key=lambda root: (root.count("/") + bool(root), root))
    if not found:
        raise NearmetalError(
            f"{path} is no captured tree: it holds none of {', '.join(SIGNS)}, at its top or further down", BAD_INTENT
        )
    depth = found[0].count("/") + bool(found[0])
    equal = [root for root in found if root.count("/") + bool(root) == depth]
    if len(equal) > 1:
        names = ", ".join(equal[:5]) + (", ..." if len(equal) > 5 else "")
        raise NearmetalError(f"{path} holds the trees of {len(equal)} hosts ({names}): give the path of one", BAD_INTENT)
    return found[0]


def _folder_roots(top: Path) -> Iterable[str]:
    """Trees in a folder, the nearest ones only; links are not followed, so that it ends."""
    level = [""]
    for _depth in range(MAX_DEPTH):
        found = [root for root in level if any(os.path.lexists(os.path.join(top, root, sign)) for sign in SIGNS)]
        if found:
            return found
        below: list[str] = []
        for root in level:
            try:
                entries = list(os.scandir(os.path.join(top, root)))
            except OSError:
                continue
            below += [os.path.join(root, e.name) for e in entries if e.is_dir(follow_symlinks=False)]
        level = below
    return []


class _Members:
    """What an archive holds: the arguments of a SnapshotHost, paths still relative to the archive."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.links: dict[str, str] = {}
        self.errors: dict[str, str] = {}
        self.folders: dict[str, None] = {}
        self.hard: dict[str, str] = {}

    def names(self) -> Iterable[str]:
        for part in (self.files, self.links, self.errors, self.folders, self.hard):
            yield from part


def _archive_host(path: Path) -> Host:
    try:
        members = _read(path)
    except NearmetalError:
        raise
    except PermissionError as err:
        raise NearmetalError(f"{path} cannot be read: {err.strerror}", BAD_INTENT) from err
    except DAMAGED as err:
        if isinstance(err, tarfile.ReadError) and not _has_tar(path):
            message = f"{path} is neither a folder nor a tar archive (.tar, .tar.gz, .tgz, .tar.bz2, .tar.xz)"
        else:
            why = str(err).partition("\n")[0].rstrip(":")  # tarfile adds a line for each compression
            message = f"{path} is cut off or damaged: {why or type(err).__name__}"
        raise NearmetalError(message, BAD_INTENT) from err
    root = _one_root(path, _archive_roots(members.names()))
    prefix = root + "/" if root else ""
    start = len(prefix)

    def inside(names: Iterable[str]) -> list[str]:
        return [name for name in names if name.startswith(prefix) and len(name) > start]

    files = {"/" + name[start:]: members.files[name] for name in inside(members.files)}
    for name in inside(members.hard):
        if members.hard[name] in members.files:
            files["/" + name[start:]] = members.files[members.hard[name]]
    errors = {"/" + name[start:]: members.errors[name] for name in inside(members.errors)}
    errors.update(_noted(files.pop("/" + NOTE, b"")))
    host: Host = core.module("host").SnapshotHost(
        files,
        {"/" + name[start:]: members.links[name] for name in inside(members.links)},
        errors,
        ["/" + name[start:] for name in inside(members.folders)],
    )
    return host


def _noted(text: bytes) -> dict[str, str]:
    """Errors of a capture; a note that is none of ours counts for nothing."""
    try:
        return {str(path): str(reason) for path, reason in json.loads(text)["errors"].items() if path.startswith("/")}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


COMPRESSED = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\0", lzma.open))


def _has_tar(path: Path) -> bool:
    """Whether it begins as a tar archive, or as compressed data that breaks off: then an error means damage."""
    with open(path, "rb") as plain:
        start = plain.read(512)
    for magic, opener in COMPRESSED:
        if start.startswith(magic):
            try:
                with opener(path, "rb") as file:
                    start = bytes(file.read(512))
            except DAMAGED:
                return True
    return start[257:262] == b"ustar"


def _archive_roots(names: Iterable[str]) -> Iterable[str]:
    for name in names:
        for sign in SIGNS:
            at = f"/{name}/".find(f"/{sign}/")
            if at >= 0:
                yield name[:at].rstrip("/")


def _read(path: Path) -> _Members:
    """Keep what may be of a host's tree; every limit is checked before the data is read."""
    members = _Members()
    kept = unpacked = count = 0
    with tarfile.open(path, "r:*") as archive:
        for member in archive:
            name = _name(path, member.name)
            count += 1
            unpacked += member.size
            if count > MAX_MEMBERS or unpacked > MAX_UNPACKED:
                raise NearmetalError(f"{path} unpacks to more than a captured tree ever holds: refused", BAD_INTENT)
            if not name or not name.endswith(NOTE) and TOPS.isdisjoint(name.split("/")):
                continue
            if member.isfile() and member.size <= MAX_FILE:
                kept += member.size
                if kept > MAX_TOTAL:
                    raise NearmetalError(f"{path} holds more than {MAX_TOTAL >> 20} MiB of /proc and /sys: refused", BAD_INTENT)
                data = archive.extractfile(member)
                members.files[name] = data.read() if data else b""
            else:
                _other(path, members, member, name)
    _check_end(path)
    return members


def _check_end(path: Path) -> None:
    """A tar archive ends with zero blocks; without compression nothing else tells that it was cut off."""
    with open(path, "rb") as file:
        if file.read(512)[257:262] != b"ustar":
            return
        file.seek(-512, os.SEEK_END)
        if file.read().strip(b"\0"):
            raise tarfile.ReadError("the end is missing")


def _other(path: Path, members: _Members, member: tarfile.TarInfo, name: str) -> None:
    if member.isfile():
        members.errors[name] = f"larger than {MAX_FILE >> 20} MiB, left in the archive"
    elif member.isdir():
        members.folders[name] = None
    elif member.issym():
        members.links[name] = member.linkname
    elif member.islnk():
        members.hard[name] = _name(path, member.linkname)
    else:
        members.errors[name] = "is a device or pipe"


def _name(path: Path, name: str) -> str:
    """A member's path without "./"; refuses one that could point out of the archive."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise NearmetalError(f"{path} has the member {name!r}, with '..' in its path: refused", BAD_INTENT)
    return "/".join(parts)
