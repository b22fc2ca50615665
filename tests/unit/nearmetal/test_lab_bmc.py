"""`nearmetal lab bmc`: it serves a captured folder, says when it is ready, and ends without a trace."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bmc_client import Client

TOP = Path(__file__).resolve().parents[3]
BIOS = "/redfish/v1/Systems/1/Bios"
READY_S = 4.0
"""Promised on a machine that does nothing else: here it is the processor time that counts, and the wait may be longer."""
PATIENCE_S = 60.0


class Command:
    """The command as a process of its own; `lines` is what it said until it was ready."""

    def __init__(self, folder: Path, port: int, *words: str) -> None:
        argv = ["lab", "bmc", "--from", str(folder), "--platform", "lenovo", "--port", str(port), *words]
        env = {**os.environ, "PYTHONPATH": str(TOP), "TMPDIR": str(folder / "tmp")}
        (folder / "tmp").mkdir(exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "nearmetal", *argv], env=env, cwd=TOP, stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._said: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        self.lines: list[str] = []

    def _listen(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._said.put(line.strip())
        self._said.put("")

    def ready(self) -> list[str]:
        while not self.lines or self.lines[-1] not in ("ready", ""):
            self.lines.append(self._said.get(timeout=PATIENCE_S))
        return self.lines

    def busy_s(self) -> float:
        """Processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> tuple[int, str]:
        code = self.process.wait(30)
        assert self.process.stderr
        return code, self.process.stderr.read()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    settings = {"SettingsObject": {"@odata.id": f"{BIOS}/Pending"}, "SupportedApplyTimes": ["OnReset"]}
    bios = {
        "@odata.id": BIOS, "@odata.type": "#Bios.v1_2_0.Bios", "@Redfish.Settings": settings, "Attributes": {"Smt": "On", "N": 1},
    }  # fmt: skip
    (tmp_path / "lenovo-Systems_1_Bios.json").write_text(json.dumps(bios))
    return tmp_path


@pytest.fixture
def run(folder: Path) -> Iterator[Any]:
    made: list[Command] = []

    def start(port: int, *words: str) -> Command:
        made.append(Command(folder, port, *words))
        return made[-1]

    yield start
    for one in made:
        one.process.kill()
        one.process.wait()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def test_https_until_sigterm(run: Any, folder: Path) -> None:
    port = free_port()
    command = run(port)
    first, second, last = command.ready()
    assert 0 < command.busy_s() < READY_S
    assert first == f"Lenovo, 2 attributes: https://127.0.0.1:{port}{BIOS}"
    assert second.startswith("certificate: ") and last == "ready"
    ca_path = second.partition(": ")[2]
    client = Client(f"https://127.0.0.1:{port}", ca_path)
    assert client.get(BIOS)["Attributes"] == {"Smt": "On", "N": 1}
    tag = client.ask("GET", f"{BIOS}/Pending").headers["etag"]
    assert client.ask("PATCH", f"{BIOS}/Pending", {"Attributes": {"Smt": 1}}, {"If-Match": tag}).status == 400
    assert client.ask("PATCH", f"{BIOS}/Pending", {"Attributes": {"Smt": "Off"}}, {"If-Match": tag}).status == 200
    assert client.get(BIOS)["Attributes"]["Smt"] == "On"
    client.ask("POST", "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset", {"ResetType": "ForceRestart"})
    assert client.get(BIOS)["Attributes"]["Smt"] == "Off"
    assert command.end() == (0, "")
    assert not Path(ca_path).exists() and list((folder / "tmp").iterdir()) == []
    with pytest.raises(ConnectionRefusedError):
        Client(f"http://127.0.0.1:{port}").get(BIOS)


def test_http_with_a_login_of_its_own(run: Any, folder: Path) -> None:
    port = free_port()
    command = run(port, "--http", "--username", "root", "--password", "calvin")
    assert command.ready() == [f"Lenovo, 2 attributes: http://127.0.0.1:{port}{BIOS}", "ready"]
    client = Client(f"http://127.0.0.1:{port}")
    assert client.ask("GET", BIOS).status == 401
    assert client.ask("GET", BIOS, login="root:calvin").status == 200
    taken = run(port, "--http")
    code, text = taken.wait()
    assert code == 1 and text.count("\n") == 1 and f"--port {port}: Address already in use" in text, text
    assert command.end(signal.SIGINT)[0] == 0


def test_a_platform_that_is_not_there(run: Any, folder: Path) -> None:
    (folder / "lenovo-Systems_1_Bios.json").rename(folder / "dell-Systems_1_Bios.json")
    code, text = run(free_port()).wait()
    assert code == 65 and text.count("\n") == 1 and "platforms there: dell" in text, text
