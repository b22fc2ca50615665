"""Waiting for a host that was told to reboot."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ansible_collections.nearmetal.rack.plugins.plugin_utils import rebooting


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def answers(*said: str | Exception) -> Callable[[], str]:
    """What the host says at each try; the last of it for ever."""
    left = list(said)

    def ask() -> str:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return ask


def wait(ask: Callable[[], str], timeout: float = 60) -> float:
    time = Time()
    return rebooting.wait("old", timeout, ask, lambda: time.now, time.sleep)


def test_back_with_another_boot() -> None:
    assert wait(answers("old", ConnectionError("refused"), ConnectionError("refused"), "new")) == 11


def test_an_empty_answer_is_no_boot() -> None:
    assert wait(answers("", "", "new")) == 6


def test_never_went_down() -> None:
    with pytest.raises(rebooting.NotBack, match="did not go down: after 6. s it is still the same boot"):
        wait(answers("old"))


def test_down_and_not_back() -> None:
    with pytest.raises(rebooting.NotBack, match="not back after 6. s: no route"):
        wait(answers("old", ConnectionError("no route")))


def test_the_old_boot_answers_once_more_and_stays() -> None:
    with pytest.raises(rebooting.NotBack, match="did not go down"):
        wait(answers(ConnectionError("refused"), "old"))
