"""The file system of a simulated host: the disk, what is in memory, and what the kernel shows."""

from __future__ import annotations

import errno
import posixpath
from typing import Any

from .model import osfiles, syscalm, sysfs, sysstatic
from .model.layer import Content, Layer
from .store import Store

State = dict[str, Any]

MEMORY = ("/run/", "/tmp/", "/dev/", "/var/tmp/")
"""Folders that are empty after a boot."""
KERNEL = ("/proc/", "/sys/")


class Errno(Exception):
    """A call that failed with this errno."""

    def __init__(self, number: int) -> None:
        super().__init__(errno.errorcode[number])
        self.number = number


Names = list[str]


class Files:
    """Files of one state. `changed()` is to be called when the state was changed by anybody else."""

    def __init__(self, store: Store, state: State) -> None:
        self.store = store
        self.state = state
        self._layers: list[Layer] | None = None
        self._disk: Layer | None = None
        self._calm: Layer | None = None
        self._calm_key = ""

    def changed(self, disk: bool = True) -> None:
        """What was worked out no longer holds; `disk` False: only for /proc and /sys."""
        self._layers = None
        if disk:
            self._disk = None

    @property
    def layers(self) -> list[Layer]:
        """All layers of this moment; a later one wins."""
        if self._layers is None:
            hw = self.state["hw"]
            static = sysstatic.layer(
                hw["sockets"], hw["cores"], hw["threads"], hw["memory_gib"], self.state["variant"]["gpu"]
            )
            if self._disk is None:
                self._disk = self._files()
            key = syscalm.key(self.state)
            if self._calm is None or key != self._calm_key:
                self._calm, self._calm_key = syscalm.layer(self.state), key
            self._layers = [static, self._calm, sysfs.layer(self.state), self._disk]
        return self._layers

    def _files(self) -> Layer:
        found = Layer()
        for path in ("/dev/kvm", "/usr/lib/systemd/systemd", *osfiles.programs(self.state)):
            found.file(path, "")
        for path in (
            "/run/systemd/system",
            "/etc/systemd/system",
            "/usr/lib/systemd/system",
            "/boot/grub",
            "/root",
            "/tmp",
            "/var/lib",
        ):
            found.folder(path)
        for name in osfiles.services(self.state):
            found.file(
                f"/usr/lib/systemd/system/{name}",
                f"[Unit]\nDescription={name}\n{osfiles.ORDER.get(name, '')}",
            )
        for kernel in self.state["kernels"]:
            found.file(f"/boot/vmlinuz-{kernel}", "")
        for kept in (self.state["disk"], self.state["volatile"]):
            for path, content in kept.items():
                if content is None:
                    found.files.pop(path, None)
                elif isinstance(content, dict) and "link" in content:
                    found.link(path, content["link"])
                else:
                    found.file(path, content)
        return found

    def canonical(self, path: str, follow: bool = True) -> str:
        """The path with its links followed."""
        layers = self.layers
        for _hop in range(40):
            head, rest = self._first_link(path, layers, follow)
            if not head:
                return path
            target = next(layer.links[head] for layer in reversed(layers) if head in layer.links)
            base = target if target.startswith("/") else posixpath.dirname(head) + "/" + target
            path = posixpath.normpath(base + rest)
        raise Errno(errno.ELOOP)

    def _first_link(self, path: str, layers: list[Layer], follow: bool) -> tuple[str, str]:
        end = 0
        while end != len(path):
            end = path.find("/", end + 1)
            if end < 0:
                end = len(path)
                if not follow:
                    break
            head = path[:end]
            if any(head in layer.links for layer in layers):
                return head, path[end:]
        return "", ""

    def read(self, path: str) -> bytes:
        """Content of a file; raises Errno."""
        real = self.canonical(_clean(path))
        content = self._content(real)
        if content is None:
            raise Errno(errno.EISDIR if self._is_folder(real) else errno.ENOENT)
        if callable(content):
            content = content()
        if isinstance(content, int):
            raise Errno(content)
        if real.startswith(KERNEL) and isinstance(content, str):
            return content.encode("utf-8", "surrogateescape")
        return content if isinstance(content, bytes) else self.store.content(content)

    def _content(self, real: str) -> Content | None:
        for layer in reversed(self.layers):
            if real in layer.files:
                return layer.files[real]
        return None

    def _is_folder(self, real: str) -> bool:
        return real == "/" or any(real in layer.dirs for layer in self.layers)

    def list(self, path: str) -> list[str]:
        """Sorted names in a folder; raises Errno."""
        real = self.canonical(_clean(path))
        key = "" if real == "/" else real
        names: set[str] = set()
        known = False
        for layer in self.layers:
            if key in layer.dirs:
                known = True
                names.update(layer.dirs[key])
        if not known:
            raise Errno(errno.ENOTDIR if self._content(real) is not None else errno.ENOENT)
        return sorted(names)

    def readlink(self, path: str) -> str:
        """Target of a link; raises Errno (EINVAL where it is none)."""
        real = self.canonical(_clean(path), follow=False)
        for layer in reversed(self.layers):
            if real in layer.links:
                return layer.links[real]
        raise Errno(
            errno.EINVAL if self._content(real) is not None or self._is_folder(real) else errno.ENOENT
        )

    def there(self, path: str) -> bool:
        """Whether a path is there, links followed."""
        try:
            real = self.canonical(_clean(path))
        except Errno:
            return False
        return self._content(real) is not None or self._is_folder(real)

    def read_text(self, path: str) -> str | None:
        """Text of a file; None where there is none."""
        try:
            return self.read(path).decode("utf-8", "surrogateescape")
        except Errno:
            return None

    def names(self, path: str) -> Names:
        """Names in a folder; none where it is not there."""
        try:
            return self.list(path)
        except Errno:
            return []

    def _kept(self, path: str) -> dict[str, Any]:
        kept: dict[str, Any] = self.state["volatile" if path.startswith(MEMORY) else "disk"]
        return kept

    def write(self, path: str, data: str | bytes) -> None:
        """Replace a file on the disk, or in memory; raises Errno below /proc and /sys."""
        real = self.canonical(_clean(path))
        if real.startswith(KERNEL):
            raise Errno(errno.EACCES)
        if self._is_folder(real):
            raise Errno(errno.EISDIR)
        raw = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
        kept = self.store.keep(raw)
        self._kept(real)[real] = kept
        if self._disk is not None:
            self._disk.file(real, kept)

    def symlink(self, path: str, target: str) -> None:
        """Make a symbolic link."""
        self._kept(path)[path] = {"link": target}
        self.changed()

    def unlink(self, path: str) -> None:
        """Remove a file or link; raises Errno."""
        real = self.canonical(_clean(path), follow=False)
        if real.startswith(KERNEL):
            raise Errno(errno.EPERM)
        kept = self._kept(real)
        if real in kept and kept[real] is not None:
            del kept[real]
        elif self.there(real):
            kept[real] = None
        else:
            raise Errno(errno.ENOENT)
        self.changed()


def _clean(path: str) -> str:
    return posixpath.normpath(path)
