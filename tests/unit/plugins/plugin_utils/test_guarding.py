"""The controller's side of the network guard."""

from __future__ import annotations

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric_boot import program
from ansible_collections.nearmetal.rack.plugins.plugin_utils import guarding
from ansible_collections.nearmetal.rack.plugins.plugin_utils.guarding import Answer


class Host:
    """Answers in turn: an exception is raised, the last one stays. Its clock runs by what is slept."""

    def __init__(self, *answers: Answer | Exception) -> None:
        self.answers = list(answers)
        self.now = 100.0
        self.asked: list[float] = []

    def ask(self) -> Answer:
        self.asked.append(self.now - 100)
        self.now += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def confirm(self, seconds: float = 60) -> str:
        return guarding.confirm(seconds, self.ask, lambda: self.now, self.sleep)


def test_confirmed_at_once() -> None:
    host = Host(Answer(0, "confirmed"))
    assert host.confirm() == "" and host.asked == [0]


def test_comes_back_late_but_in_time() -> None:
    assert Host(ConnectionError("no route"), ConnectionError("no route"), Answer(0, "")).confirm() == ""


def test_cut_off_and_restored() -> None:
    lost = [ConnectionError("timed out")] * 30
    host = Host(*lost, Answer(guarding.TOO_LATE, "the network was restored at noon: nobody confirmed"))
    said = host.confirm()
    assert said.startswith("the change cut the host off (timed out); the network was restored at noon")
    assert host.asked[-1] > 60  # it waited past the deadline


def test_never_comes_back() -> None:
    host = Host(ConnectionError("timed out"))
    assert "is not reached" in host.confirm() and "BMC" in host.confirm()
    assert host.asked[-1] >= 60 + guarding.AFTER_S


def test_the_program_fails() -> None:
    assert "could not be confirmed" in Host(Answer(1, "FAILED: no space left")).confirm()


def test_words() -> None:
    token = "0123456789abcdef" * 2
    assert guarding.command(token) == " ".join(program.argv("confirm", token))
    for bad in ("", "x; reboot", "0123", token + "\n"):
        with pytest.raises(ValueError):
            guarding.command(bad)
