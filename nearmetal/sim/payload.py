"""Run a program of a simulated host: `python -P payload.py CACHE [PROGRAM ARGUMENT...]`.

PROGRAM is a zip archive or script; without one, an Ansible payload comes on standard input.
Ansible's own part of the payload is not loaded from it, as the controller has that compiled already. All that is
nearmetal's comes from the payload, as on a real host; what compiling it gave is kept in the folder CACHE for the next
host, as the same payload comes many times.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import runpy
import sys
import zipimport
from pathlib import Path
from types import CodeType
from typing import Any


def remember(folder: Path) -> None:
    """Have zipimport take compiled sources from the folder, and leave new ones there."""
    compile_source: Any = getattr(zipimport, "_compile_source", None)
    if compile_source is None:
        return

    def remembered(path: str, source: bytes) -> CodeType:
        name = hashlib.sha256(source + sys.version.encode()).hexdigest()
        try:
            found: CodeType = marshal.loads((folder / name).read_bytes())
        except (OSError, ValueError, EOFError):
            found = compile_source(path, source)
            draft = folder / f"{name}.{os.getpid()}"
            try:
                folder.mkdir(exist_ok=True)
                draft.write_bytes(marshal.dumps(found))
                draft.replace(folder / name)
            except OSError:
                pass  # it is only slower without
        return found

    zipimport._compile_source = remembered  # type: ignore[attr-defined]


def main() -> None:
    """See the module."""
    remember(Path(sys.argv[1]))
    if sys.argv[2:]:
        del sys.argv[:2]
        runpy.run_path(sys.argv[0], run_name="__main__")
        return
    import ansible.module_utils.basic  # noqa: F401

    data = sys.stdin.buffer.read()
    del sys.argv[1:]
    exec(compile(data, "<payload>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    main()
