"""Progress lines of the virtual rack: one line a step, with the seconds since the command began."""

from __future__ import annotations

import threading
import time

from rich.console import Console
from rich.markup import escape


class Progress:
    """Prints lines; used from several threads. Coloured on a terminal, plain elsewhere; silent if `quiet`."""

    def __init__(self, console: Console | None = None, quiet: bool = False) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._quiet = quiet
        self._began = time.monotonic()
        self._lock = threading.Lock()

    def say(self, text: str, who: str = "") -> None:
        """Print one line, at once."""
        if self._quiet:
            return
        stamp = f"{time.monotonic() - self._began:6.1f}s"
        with self._lock:
            self._console.print(f"[dim]{stamp}[/dim] {f'[bold]{who}[/bold]: ' if who else ''}{escape(text)}", soft_wrap=True)
