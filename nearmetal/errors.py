"""Exit codes, and the one error that a command ends with."""

from __future__ import annotations

OK, FAILED, PENDING, USAGE, BAD_INTENT = 0, 1, 2, 64, 65


class NearmetalError(Exception):
    """Ends a command: `message` goes to stderr as one clear sentence or list, `code` is the exit code."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
