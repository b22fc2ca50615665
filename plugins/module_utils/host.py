# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one way to a host's files and commands.

Observers, deciders' readers and modules never touch the system directly; they are given a Host. A
`FileHost` is the running system (root "/") or a tree on disk: an image being built, a chroot, an
unpacked support archive. A `SnapshotHost` is what the probe brought home, or an archive in memory.

Paths are absolute as the host sees them ("/proc/cmdline"), whatever its root is.
"""

from __future__ import annotations

import abc
import contextlib
import errno
import importlib
import os
import posixpath
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union, cast

BACKUP_DIR = "/var/lib/nearmetal/backup"
BACKUPS_KEPT = 20
LOCK_FILE = "/run/lock/nearmetal.lock"


class HostError(Exception):
    """A file or command could not be used. `path` is what was asked for, `reason` says why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__("%s: %s" % (path, reason))
        self.path = path
        self.reason = reason


class Missing(HostError):
    """The file is not there."""


class Unreadable(HostError):
    """The file is (or may be) there, but it cannot be read: never to be taken for absent."""


class Refused(HostError):
    """This kind of host does not do that (a captured tree runs nothing)."""


class Result(NamedTuple):
    """What a command said."""

    rc: int
    stdout: str
    stderr: str


class Host(abc.ABC):
    """Files and commands of one host."""

    #: True where /proc and /sys belong to a running kernel and commands may be run.
    live: bool = False

    @abc.abstractmethod
    def read_bytes(self, path: str) -> bytes:
        """Content of a file; raises Missing or Unreadable."""

    @abc.abstractmethod
    def list(self, path: str) -> List[str]:
        """Sorted names in a folder; raises Missing or Unreadable."""

    @abc.abstractmethod
    def readlink(self, path: str) -> str:
        """Target of a symbolic link as written; raises Missing where it is none."""

    @abc.abstractmethod
    def exists(self, path: str) -> bool:
        """Whether the path is there, links followed."""

    def read(self, path: str) -> str:
        """Text of a file (UTF-8, undecodable bytes kept as surrogates)."""
        return self.read_bytes(path).decode("utf-8", "surrogateescape")

    def get(self, path: str, default: str = "") -> str:
        """Stripped text, or `default` where the file is not there. Unreadable is still raised."""
        try:
            return self.read(path).strip()
        except Missing:
            return default

    def names(self, path: str) -> List[str]:
        """Names in a folder; none where it is not there."""
        try:
            return self.list(path)
        except Missing:
            return []

    def write(
        self, path: str, text: str, mode: Optional[int] = None, in_place: bool = False, backup: bool = True
    ) -> None:
        """Replace a file atomically, with a backup of the former one.

        `in_place` is for files whose inode must stay (grubenv): written without truncation first.
        `backup` False is for putting back what was there a moment ago.
        """
        raise Refused(path, "read-only host")

    def remove(self, path: str, backup: bool = True) -> None:
        """Remove a file, with a backup; nothing where it is not there."""
        raise Refused(path, "read-only host")

    def poke(self, path: str, text: str) -> None:
        """Write to a kernel attribute under /proc or /sys; raises HostError with the kernel's word."""
        raise Refused(path, "read-only host")

    def run(self, argv: Sequence[str], timeout: float = 300, stdin: str = "") -> Result:
        """Run a command (no shell, C locale). Never raises for a non-zero exit status."""
        raise Refused(argv[0], "commands are not run on this host")

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other nearmetal modules, from any controller, off this host for the while."""
        yield


def _reason(err: OSError) -> str:
    return os.strerror(err.errno) if err.errno else str(err)


def _error(path: str, err: OSError) -> HostError:
    kind = Missing if err.errno in (errno.ENOENT, errno.ENOTDIR) else Unreadable
    return kind(path, _reason(err))


class FileHost(Host):
    """A running system, or a tree on disk that is treated as one."""

    def __init__(self, root: str = "/") -> None:
        self.root = os.path.abspath(root)
        self.live = self.root == "/"

    def _at(self, path: str, follow: bool = True) -> str:
        """Where the path lies on this disk; links are followed inside the root, as in a chroot."""
        if self.live:
            return path
        done: List[str] = []
        todo = [p for p in path.split("/") if p not in ("", ".")][::-1]
        hops = 0
        while todo:
            part = todo.pop()
            if part == "..":
                if done:
                    done.pop()
                continue
            here = os.path.join(self.root, *done, part)
            if (todo or follow) and os.path.islink(here):
                hops += 1
                if hops > 40:
                    raise Unreadable(path, os.strerror(errno.ELOOP))
                target = os.readlink(here)
                if target.startswith("/"):
                    done = []
                todo.extend([p for p in target.split("/") if p not in ("", ".")][::-1])
            else:
                done.append(part)
        return os.path.join(self.root, *done)

    def read_bytes(self, path: str) -> bytes:
        try:
            with open(self._at(path), "rb") as f:
                return f.read()
        except OSError as err:
            raise _error(path, err) from None

    def list(self, path: str) -> List[str]:
        try:
            return sorted(os.listdir(self._at(path)))
        except OSError as err:
            raise _error(path, err) from None

    def readlink(self, path: str) -> str:
        try:
            return os.readlink(self._at(path, follow=False))
        except OSError as err:
            if err.errno == errno.EINVAL:
                raise Missing(path, "is no symbolic link") from None
            raise _error(path, err) from None

    def exists(self, path: str) -> bool:
        return os.path.exists(self._at(path))

    def write(
        self, path: str, text: str, mode: Optional[int] = None, in_place: bool = False, backup: bool = True
    ) -> None:
        data = text.encode("utf-8", "surrogateescape")
        real = os.path.realpath(self._at(path)) if self.live else self._at(path)
        try:
            if backup:
                self._backup(path, real)
            os.makedirs(os.path.dirname(real), exist_ok=True)
            if in_place:
                _overwrite(real, data)
            else:
                _replace(real, data, mode)
        except OSError as err:
            raise HostError(path, "cannot write: %s" % _reason(err)) from None

    def remove(self, path: str, backup: bool = True) -> None:
        real = self._at(path, follow=False)
        if not os.path.lexists(real):
            return
        try:
            if backup:
                self._backup(path, real)
            os.unlink(real)
        except OSError as err:
            raise HostError(path, "cannot remove: %s" % _reason(err)) from None

    def _backup(self, path: str, real: str) -> None:
        if not os.path.isfile(real):
            return
        folder = self._at(BACKUP_DIR)
        stamp = "%s-%09d" % (time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()), time.time_ns() % 10**9)
        copy = os.path.join(folder, stamp, path.lstrip("/"))
        os.makedirs(os.path.dirname(copy), mode=0o700, exist_ok=True)
        try:
            shutil.copy2(real, copy)
        except OSError:
            shutil.rmtree(os.path.join(folder, stamp), ignore_errors=True)
            raise
        for old in sorted(os.listdir(folder))[:-BACKUPS_KEPT]:
            shutil.rmtree(os.path.join(folder, old), ignore_errors=True)

    def poke(self, path: str, text: str) -> None:
        try:
            fd = os.open(self._at(path), os.O_WRONLY | (0 if self.live else os.O_TRUNC))
            try:
                os.write(fd, text.encode())
            finally:
                os.close(fd)
        except OSError as err:
            raise HostError(path, "the kernel refused %r: %s" % (text, _reason(err))) from None

    def run(self, argv: Sequence[str], timeout: float = 300, stdin: str = "") -> Result:
        if not self.live:
            raise Refused(argv[0], "commands are not run on a tree (root %s)" % self.root)
        env = dict(os.environ, LC_ALL="C", PATH=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        try:
            done = subprocess.run(
                list(argv), input=stdin, timeout=timeout, env=env, check=False,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
            )
        except FileNotFoundError:
            raise Missing(argv[0], "command not found") from None
        except subprocess.TimeoutExpired:
            raise HostError(argv[0], "no end after %d s" % timeout) from None
        return Result(done.returncode, done.stdout, done.stderr)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        import fcntl

        if not self.live:
            yield
            return
        with open(LOCK_FILE, "a+", encoding="utf-8") as f:
            end = time.monotonic() + 60
            while True:
                try:
                    fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    if time.monotonic() > end:
                        f.seek(0)
                        raise HostError(LOCK_FILE, "held for a minute by %s" % (f.read().strip() or "?")) from None
                    time.sleep(0.2)
            f.seek(0)
            f.truncate()
            f.write("pid %d\n" % os.getpid())
            f.flush()
            yield


def _replace(real: str, data: bytes, mode: Optional[int]) -> None:
    fd, tmp = tempfile.mkstemp(prefix=".nearmetal-", dir=os.path.dirname(real))
    try:
        with os.fdopen(fd, "wb") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        if os.path.exists(real):
            old = os.stat(real)
            shutil.copystat(real, tmp)  # mode and extended attributes (SELinux label)
            os.utime(tmp)
            os.chown(tmp, old.st_uid, old.st_gid)
            os.chmod(tmp, stat.S_IMODE(old.st_mode) if mode is None else mode)
        else:
            os.chmod(tmp, 0o644 if mode is None else mode)
        os.rename(tmp, real)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(tmp)
        raise
    folder = os.open(os.path.dirname(real), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _overwrite(real: str, data: bytes) -> None:
    with open(real, "r+b") as f:
        f.write(data)
        f.truncate()
        f.flush()
        os.fsync(f.fileno())


SIMULATED = "NEARMETAL_SIMULATED"
"""Set where a program runs for a simulated host, in place of the machine that it really runs on."""


def tree(root: str) -> Host:
    """The host whose files lie there; raises Missing where that is no folder: nothing is to be made up there.

    For a simulated host it is the simulator's, whatever this machine has.
    """
    if SIMULATED in os.environ:
        simulator = importlib.import_module("nearmetal.sim.host")
        return cast(Host, simulator.from_environment(sys.modules[__name__], root))
    if not os.path.isdir(root):
        raise Missing("root", "%s is no folder on this host: give the top of a tree" % root)
    return FileHost(root)


class SnapshotHost(Host):
    """A read-only host in memory.

    `files` maps a path to its content, `links` a path to its target, `errors` a path to the reason
    why it could not be read. Folders are whatever the paths imply, plus `folders` (empty ones). `commands`
    maps words, joined by blanks, to what that command said when the files were read; no other can be run.
    """

    def __init__(
        self,
        files: Dict[str, Union[str, bytes]],
        links: Optional[Dict[str, str]] = None,
        errors: Optional[Dict[str, str]] = None,
        folders: Sequence[str] = (),
        live: bool = False,
        commands: Optional[Mapping[str, Sequence[Any]]] = None,
    ) -> None:
        self.files = files
        self.links = links or {}
        self.errors = errors or {}
        self.folders = list(folders)
        self.commands = commands or {}
        self.live = live
        self._dirs: Dict[str, Dict[str, None]] = {"/": {}}
        for path in (*files, *self.links, *self.errors):
            self._add(path)
        for path in folders:
            self._add(path)
            self._dirs.setdefault(path, {})

    def run(self, argv: Sequence[str], timeout: float = 300, stdin: str = "") -> Result:
        said = self.commands.get(" ".join(argv))
        if said is None:
            raise Refused(argv[0], "was not run when this host was looked at")
        if said[0] == 127:
            raise Missing(argv[0], "command not found")
        if said[0] == 124:
            raise HostError(argv[0], str(said[2]))
        return Result(int(said[0]), str(said[1]), str(said[2]))

    def _add(self, path: str) -> None:
        while path != "/":
            parent, _sep, name = path.rpartition("/")
            parent = parent or "/"
            known = self._dirs.get(parent)
            if known is None:
                self._dirs[parent] = {name: None}
            else:
                seen = name in known
                known[name] = None
                if seen or parent == "/":
                    return
            path = parent

    def _at(self, path: str) -> str:
        """The path with its links followed."""
        if path in self.files or path in self._dirs and path not in self.links:
            return path
        for _hop in range(40):
            head, rest = self._first_link(path)
            if head is None:
                return path
            target = self.links[head]
            base = target if target.startswith("/") else posixpath.dirname(head) + "/" + target
            path = posixpath.normpath(base + rest)
        raise Unreadable(path, os.strerror(errno.ELOOP))

    def _first_link(self, path: str) -> Tuple[Optional[str], str]:
        end = 0
        while end != len(path):
            end = path.find("/", end + 1)
            if end < 0:
                end = len(path)
            if path[:end] in self.links:
                return path[:end], path[end:]
        return None, ""

    def read_bytes(self, path: str) -> bytes:
        content = self.read_raw(path)
        return content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content

    def read(self, path: str) -> str:
        content = self.read_raw(path)
        return content if isinstance(content, str) else content.decode("utf-8", "surrogateescape")

    def read_raw(self, path: str) -> Union[str, bytes]:
        """The content as it was given."""
        real = self._at(path)
        if real in self.files:
            return self.files[real]
        if real in self.errors:
            raise Unreadable(path, self.errors[real])
        if real in self._dirs:
            raise Unreadable(path, os.strerror(errno.EISDIR))
        raise Missing(path, os.strerror(errno.ENOENT))

    def list(self, path: str) -> List[str]:
        real = self._at(path)
        if real in self.errors:
            raise Unreadable(path, self.errors[real])
        if real not in self._dirs:
            raise Missing(path, os.strerror(errno.ENOENT))
        return sorted(self._dirs[real])

    def readlink(self, path: str) -> str:
        head, rest = self._first_link(path)
        while head is not None and rest:
            target = self.links[head]
            base = target if target.startswith("/") else posixpath.dirname(head) + "/" + target
            path = posixpath.normpath(base + rest)
            head, rest = self._first_link(path)
        if head is None:
            raise Missing(path, "is no symbolic link")
        return self.links[head]

    def exists(self, path: str) -> bool:
        real = self._at(path)
        return real in self.files or real in self._dirs or real in self.errors
