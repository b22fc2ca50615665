# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that runs at boot and for the guard: one zip of those modules that it needs, from their own sources.

The same sources give the same bytes, on the controller as inside a module on a host: entries sorted, without time,
stored and not compressed (compressors differ between versions).
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import io
import pkgutil
import re
import zipfile
from typing import Dict, List, Optional, Set, Tuple

PATH = "/usr/local/lib/nearmetal/fabric.pyz"
PYTHON = "/usr/bin/python3"
ENTRY = "fabric_boot.main"
TOP = "nearmetal_host"
"""Name of the package within the program: no other of that name can be in its way."""

BASE = __name__.rpartition(".fabric_boot.")[0]

MAIN = '''# Also read by the Python 3.6 of older systems, which then looks for a newer one.
import os
import sys

if sys.version_info < (3, 9):
    for minor in range(20, 8, -1):
        for folder in ("/usr/bin", "/usr/local/bin", "/usr/libexec"):
            name = "%s/python3.%d" % (folder, minor)
            if os.access(name, os.X_OK):
                os.execv(name, [name] + sys.argv)
    sys.stderr.write("nearmetal: needs Python 3.9 or newer, this is %d.%d: install python39\\n" % sys.version_info[:2])
    sys.exit(1)
from nearmetal_host.fabric_boot.main import main

sys.exit(main(sys.argv[1:]))
'''

_IMPORT = re.compile(r"^[ \t]*from[ \t]+(\.+)([\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n(]+)", re.MULTILINE)


@functools.lru_cache(maxsize=1)
def build() -> bytes:
    """The program."""
    files = {"__main__.py": MAIN}
    for name, text in _modules(ENTRY).items():
        parts = name.split(".")
        for depth in range(len(parts)):
            files.setdefault("/".join([TOP, *parts[:depth], "__init__.py"]), "")
        files["/".join([TOP, *parts]) + ".py"] = text
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(files):
            info = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            info.create_system, info.external_attr = 3, 0o644 << 16
            archive.writestr(info, files[path].encode("utf-8"))
    return buffer.getvalue()


def digest() -> str:
    """SHA-256 of the program, in hexadecimal."""
    return hashlib.sha256(build()).hexdigest()


def text() -> str:
    """The program as Host.write takes it: bytes that are no UTF-8 as surrogates."""
    return build().decode("utf-8", "surrogateescape")


def _modules(entry: str) -> Dict[str, str]:
    """Sources of a module and of all modules that it needs, by name below the base."""
    found: Dict[str, str] = {}
    seen: Set[str] = set()
    todo = [entry]
    while todo:
        name = todo.pop()
        source = None if name in seen else _source(name)
        seen.add(name)
        if source is None:
            continue
        found[name] = source
        todo += imports(name, source)
    return found


def imports(name: str, source: str) -> List[str]:
    """Names that may be modules of ours: what is named in `from .x import a, b` is x, and perhaps x.a and x.b."""
    found = []
    for match in _IMPORT.finditer(source):
        above = name.split(".")[: -len(match.group(1))]
        base = ".".join([*above, *(match.group(2).split(".") if match.group(2) else [])])
        words = re.sub(r"#[^\n]*", "", match.group(3)).strip("()")
        members = [word.split(" as ")[0].strip() for word in words.split(",")]
        found += [base] if base else []
        found += [(base + "." + member) if base else member for member in members if member]
    return found


def _source(name: str) -> Optional[str]:
    """Text of a module, from a folder or from the zip that runs; None where there is no such module."""
    folder, _dot, last = name.rpartition(".")
    package = BASE + ("." + folder if folder else "")
    try:
        if not hasattr(importlib.import_module(package), "__path__"):
            return None  # a member of a module, no module
        data = pkgutil.get_data(package, last + ".py")
    except (ImportError, OSError):
        return None
    return None if data is None else data.decode("utf-8")


def argv(*words: str) -> Tuple[str, ...]:
    """How it is called."""
    return (PYTHON, PATH, *words)
