"""Files, links and folders of a simulated host, by path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Content = str | bytes | int | dict[str, Any] | Callable[[], str | bytes]
"""Text, bytes, what makes them when they are read, the errno that reading gives, or what Store.keep made of it."""


class Layer:
    """A part of the file system; several of them make the whole."""

    def __init__(self) -> None:
        self.files: dict[str, Content] = {}
        self.links: dict[str, str] = {}
        self.dirs: dict[str, dict[str, None]] = {}

    def file(self, path: str, content: Content) -> None:
        """Add a file."""
        self.files[path] = content
        self.known(path)

    def link(self, path: str, target: str) -> None:
        """Add a symbolic link."""
        self.links[path] = target
        self.known(path)

    def folder(self, path: str) -> None:
        """Add a folder, empty so far."""
        if path not in self.dirs:
            self.dirs[path] = {}
            self.known(path)

    def known(self, path: str) -> None:
        """Enter a path in its parents."""
        while path:
            parent, _slash, name = path.rpartition("/")
            names = self.dirs.get(parent)
            if names is None:
                self.dirs[parent] = {name: None}
            else:
                seen = name in names
                names[name] = None
                if seen:
                    return
            path = parent
