"""QEMU's control socket, as far as a rack needs it (QMP: one JSON object a line)."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..errors import NearmetalError


class Qmp:
    """One connection; QEMU serves one at a time, so hold it briefly."""

    def __init__(self, path: Path, timeout: float = 120) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(str(path))
            self._file = self._socket.makefile("rw", encoding="utf-8")
            self._file.readline()
            self.execute("qmp_capabilities")
        except OSError:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._socket.close()

    def execute(self, command: str, **arguments: Any) -> Any:
        """Run a command and return its answer; events that come meanwhile are passed over.

        Raises NearmetalError with QEMU's words if it refuses, OSError if the connection breaks.
        """
        self._file.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self._file.flush()
        while line := self._file.readline():
            answer = json.loads(line)
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise NearmetalError(f"QEMU refused {command}: {answer['error'].get('desc', '?')}")
        raise ConnectionError(f"QEMU closed its control socket during {command}")

    def monitor(self, line: str) -> str:
        """Run a line of the human monitor; raises NearmetalError if it answers with an error."""
        said = str(self.execute("human-monitor-command", **{"command-line": line})).strip()
        if said.startswith("Error") or "rror:" in said:
            raise NearmetalError(f"QEMU refused {line}: {said}")
        return said
