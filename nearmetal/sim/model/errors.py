"""Refusals of a simulated kernel or tool."""

from __future__ import annotations

import errno
import os


class Refusal(Exception):
    """The kernel says no: errno, and the words of its extended acknowledgement or of the tool, if any."""

    def __init__(self, number: int, words: str = "") -> None:
        super().__init__(words or os.strerror(number))
        self.errno = number
        self.words = words

    @property
    def reason(self) -> str:
        """As strerror says it."""
        return os.strerror(self.errno)


class PowerLoss(BaseException):
    """The host died in the middle of what it was doing; nothing may catch this but the program's end."""


class Killed(BaseException):
    """The program died (out of memory, kill -9), its host lives on."""


def busy(words: str = "") -> Refusal:
    """EBUSY."""
    return Refusal(errno.EBUSY, words)


def invalid(words: str = "") -> Refusal:
    """EINVAL."""
    return Refusal(errno.EINVAL, words)


def unsupported(words: str = "") -> Refusal:
    """EOPNOTSUPP."""
    return Refusal(errno.EOPNOTSUPP, words)


def absent(words: str = "") -> Refusal:
    """ENODEV."""
    return Refusal(errno.ENODEV, words)
