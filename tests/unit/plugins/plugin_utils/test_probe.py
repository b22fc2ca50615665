"""The probe tells what is wrong, and takes the way that the connection allows."""

from __future__ import annotations

import shutil
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible_collections.nearmetal.rack.plugins.module_utils import collector
from ansible_collections.nearmetal.rack.plugins.plugin_utils import probe as module
from ansible_collections.nearmetal.rack.plugins.plugin_utils.probe import ProbeError, probe

MARK = collector.MARK
EMPTY = MARK + '\n{"files":{"/proc":{"cmdline":"ro\\n"}},"links":{},"errors":{},"folders":[]}\n'


class Connection:
    has_pipelining = True

    def __init__(self, become: Any = None) -> None:
        self.become = become
        self._shell = SimpleNamespace(join_path=lambda *parts: "/".join(parts))
        self.options = {"pipelining": False}

    def has_option(self, name: str) -> bool:
        return name in self.options

    def get_option(self, name: str) -> Any:
        return self.options[name]

    def set_option(self, name: str, value: Any) -> None:
        self.options[name] = value


class Action:
    """Stands in for an ActionBase: answers commands in turn, or runs them in a real shell."""

    def __init__(self, *answers: Any, become: Any = None, real: bool = False) -> None:
        self._connection = Connection(become)
        self._templar = SimpleNamespace(template=lambda text: text.replace("{{ py }}", "/usr/bin/python9"))
        self.answers, self.real = list(answers), real
        self.commands: list[tuple[str, bytes | None]] = []
        self.removed: list[str] = []

    def _low_level_execute_command(self, cmd: str, in_data: bytes | None = None) -> dict[str, Any]:
        self.commands.append((cmd, in_data))
        self.pipelining = self._connection.options["pipelining"]
        if self.real:
            done = subprocess.run(["/bin/sh", "-c", cmd], input=in_data, capture_output=True, check=False)
            return {"rc": done.returncode, "stdout": done.stdout.decode(), "stderr": done.stderr.decode()}
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _make_tmp_path(self) -> str:
        return "/tmp/ansible-tmp-1"

    def _transfer_data(self, path: str, data: bytes) -> None:
        self.commands.append((path, data))

    def _fixup_perms2(self, paths: Any) -> None:
        self.commands.append((" ".join(paths), None))

    def _remove_tmp_path(self, path: str) -> None:
        self.removed.append(path)


def said(stdout: str = "", stderr: str = "", rc: int = 0) -> dict[str, Any]:
    return {"rc": rc, "stdout": stdout, "stderr": stderr}


SUDO = SimpleNamespace(name="sudo", pipelining=True)
SU = SimpleNamespace(name="su", pipelining=False)


def test_one_command_one_program_on_stdin() -> None:
    action = Action(said("Welcome!\n" + EMPTY))
    host = probe(action, {})
    assert host.live and host.read("/proc/cmdline") == "ro\n"
    ((command, program),) = action.commands
    assert program is not None and b"import posix" in program
    assert "python3.9" in command and "/usr/libexec/platform-python" in command


@pytest.mark.parametrize(
    ("value", "start"),
    [
        ("/opt/py/bin/python3", "command -v /opt/py/bin/python3 "), ("/usr/bin/env python3", "command -v /usr/bin/env "),
        ("{{ py }}", "command -v /usr/bin/python9 "), ("/opt/my py", "command -v /opt/my "), ("auto", "for p in "),
        ("auto_silent", "for p in "),
    ],
)  # fmt: skip
def test_interpreter_is_honoured(value: str, start: str) -> None:
    action = Action(said(EMPTY))
    probe(action, {"ansible_python_interpreter": value})
    assert action.commands[0][0].startswith(start)


def test_a_real_shell_and_collector() -> None:
    if not shutil.which("python3"):
        pytest.skip("no python3 in PATH")
    action = Action(real=True)
    assert probe(action, {}).read("/proc/cpuinfo")
    assert len(action.commands) == 1


def test_missing_interpreter_in_a_real_shell() -> None:
    with pytest.raises(ProbeError, match="/no/such/python is not there") as err:
        probe(Action(real=True), {"ansible_python_interpreter": "/no/such/python"})
    assert err.value.kind == "no_python"


CASES: list[tuple[str, Any, Any, str]] = [
    ("unreachable", AnsibleConnectionFailure("Connection refused"), None, "Connection refused"),
    ("unreachable", said(stderr="ssh: connect: timed out", rc=255), None, "timed out"),
    ("no_python", said(MARK + " NO-PYTHON\n", rc=127), None, "python3.9 or newer is not there"),
    ("no_python", said(MARK + " OLD 3.6.8\n", rc=3), None, "Python 3.6.8 on the host is too old"),
    ("become", AnsibleError("Missing sudo password"), SUDO, "become (sudo) refused: Missing sudo password"),
    ("become", AnsibleConnectionFailure("Timeout waiting for privilege escalation prompt"), SUDO, "Timeout"),
    ("become", said(stderr="sudo: a password is required\n", rc=1), SUDO, "a password is required"),
    ("become", said(stderr="x is not in the sudoers file.\n", rc=1), SUDO, "not in the sudoers file"),
    ("failed", said(stderr="sh: not found\n", rc=127), None, "the probe did not start (exit status 127)"),
    ("failed", said(MARK + "\n" + '{"files": {', stderr="MemoryError\n", rc=1), None, "MemoryError"),
    ("failed", said(MARK + "\n[]\n"), None, "the probe failed"),
    ("failed", said(MARK + " ROOT No such file or directory\n"), None, "root / on the host: No such file"),
]


@pytest.mark.parametrize(("kind", "answer", "become", "words"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)])
def test_every_failure_has_its_kind_and_words(kind: str, answer: Any, become: Any, words: str) -> None:
    with pytest.raises(ProbeError) as err:
        probe(Action(answer, become=become), {})
    assert err.value.kind == kind
    assert words in err.value.message and "\n" not in err.value.message


def test_su_cannot_pipe_so_the_program_is_transferred_and_removed() -> None:
    action = Action(said(EMPTY), become=SU)
    assert probe(action, {}).read("/proc/cmdline") == "ro\n"
    transfer, _perms, run = action.commands
    assert transfer[0] == "/tmp/ansible-tmp-1/nearmetal_probe.py" and transfer[1] is not None
    assert run[1] is None and "-I -S /tmp/ansible-tmp-1/nearmetal_probe.py" in run[0]
    assert action.removed == ["/tmp/ansible-tmp-1"]


def test_requiretty_falls_back_to_transfer() -> None:
    refused = said(stderr="sudo: sorry, you must have a tty to run sudo\n", rc=1)
    action = Action(refused, said(EMPTY.replace("\n", "\r\n")), become=SUDO)
    assert probe(action, {}).read("/proc/cmdline") == "ro\n"
    assert len(action.commands) == 4 and action.removed


def test_transferred_program_is_removed_after_failure() -> None:
    action = Action(AnsibleConnectionFailure("lost"), become=SU)
    with pytest.raises(ProbeError):
        probe(action, {})
    assert action.removed


def test_pipelining_is_switched_on_for_a_password_and_put_back() -> None:
    action = Action(said(EMPTY), become=SUDO)
    probe(action, {})
    assert action.pipelining is True and action._connection.options == {"pipelining": False}


def test_capabilities_say_what_they_need_read() -> None:
    paths = module.probe_paths()
    assert "/etc/systemd/system/system.slice.d/50-nearmetal.conf" in paths
    assert all(path.startswith("/") for path in paths)
