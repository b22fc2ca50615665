# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Running guests: one virsh that owns them, and the serial line to each.

The domains are transient and created with --autodestroy, which ties them to the connection that
made them: when virsh ends, however it or this process ends, libvirt removes them. So one virsh is
kept open for the whole benchmark and fed its commands; the Python bindings of libvirt would do the
same, but are not on every host.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from .bench_domain import PREFIX
from .bench_scenarios import BenchError

URI = "qemu:///system"


class Virsh:
    """One virsh with one connection, until `close`."""

    def __init__(self, log: str) -> None:
        """Start it; `log` is the file that everything it says goes to. Raises BenchError."""
        self._log = log
        self._count = 0
        with open(log, "wb") as out:
            try:
                self._process = subprocess.Popen(
                    ["virsh", "--connect", URI], stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT,
                    env=dict(os.environ, LC_ALL="C", HISTFILE="", VIRSH_HISTSIZE="0"), start_new_session=True,
                )  # fmt: skip
            except FileNotFoundError:
                raise BenchError(
                    "virsh is missing; install the packages libvirt-daemon-system and libvirt-clients"
                ) from None

    def run(self, command: str, timeout: float = 120) -> str:
        """What virsh says to a command. Raises BenchError where it says "error:", ends, or stays silent."""
        self._count += 1
        mark = "nearmetal-mark-%d" % self._count
        begin = os.path.getsize(self._log)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(("%s\necho %s\n" % (command, mark)).encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise BenchError("virsh ended: %s" % self._said(0)) from None
        end = time.monotonic() + timeout
        while True:
            said = self._said(begin)
            if mark in said.splitlines():
                break
            if self._process.poll() is not None or time.monotonic() > end:
                raise BenchError("virsh %s: no answer: %s" % (command, said.strip()[-300:]))
            time.sleep(0.05)
        errors = [line for line in said.splitlines() if line.startswith("error:")]
        if errors:
            raise BenchError("virsh %s: %s" % (command, " ".join(errors)))
        return said

    def _said(self, begin: int) -> str:
        with open(self._log, "rb") as f:
            f.seek(begin)
            return f.read().decode("utf-8", "replace")

    def close(self) -> None:
        """End virsh, and with it every domain that it created."""
        with contextlib.suppress(OSError):
            if self._process.stdin:
                self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Console:
    """The serial line of a guest, as lines of text."""

    def __init__(self, path: str, timeout: float = 30) -> None:
        """Connect; the socket may take a moment to appear. Raises BenchError."""
        end = time.monotonic() + timeout
        while True:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                self._socket.connect(path)
                break
            except OSError as err:
                self._socket.close()
                if time.monotonic() > end:
                    raise BenchError(
                        "cannot reach the guest's console %s: %s" % (path, err.strerror)
                    ) from None
                time.sleep(0.1)
        self._buffer = b""
        self.last_words = ""

    def send(self, line: str) -> None:
        """Send one line. Raises BenchError where the guest is gone."""
        try:
            self._socket.sendall(line.encode() + b"\n")
        except OSError:
            raise BenchError("the guest is gone; its last words: %s" % self.last_words) from None

    def answer(self, timeout: float) -> Optional[Dict[str, Any]]:
        """The next JSON object from the guest; None where none comes in time.

        Other lines are the kernel's; the last of them are kept for an error message.
        """
        end = time.monotonic() + timeout
        while True:
            line, newline, rest = self._buffer.partition(b"\n")
            if newline:
                self._buffer = rest
                found = self._document(line.decode("utf-8", "replace").strip())
                if found is not None:
                    return found
                continue
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._socket], [], [], left)[0]:
                return None
            data = self._socket.recv(65536)
            if not data:
                raise BenchError("the guest ended; its last words: %s" % (self.last_words or "none"))
            self._buffer += data

    def _document(self, line: str) -> Optional[Dict[str, Any]]:
        if line.startswith("{"):
            with contextlib.suppress(ValueError):
                found = json.loads(line)
                return found if isinstance(found, dict) else None
        if line:
            self.last_words = (self.last_words + " | " + line)[-400:].lstrip(" |")
        return None

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


class Guest:
    """One booted guest, paused whenever it has nothing to do: even idle guests take time of their CPUs."""

    def __init__(
        self, virsh: Virsh, name: str, console: Console, hello: Dict[str, Any], boot_seconds: float
    ) -> None:  # fmt: skip
        self.name = name
        self._virsh = virsh
        self.hello = hello  # {"ready", "cpus", "siblings", "uptime"}
        self.boot_seconds = boot_seconds
        self.process, self.threads = find_threads(name)
        self._console = console
        self._count = 0
        virsh.run("suspend %s" % name)

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        """The guest runs meanwhile. Raises BenchError."""
        self._virsh.run("resume %s" % self.name)
        yield
        self._virsh.run("suspend %s" % self.name)

    def run(
        self, command: List[str], timeout: float, watch: Callable[[], None], every: float
    ) -> Dict[str, Any]:
        """Run a command inside; `watch` is called every so many seconds meanwhile.

        Returns {"id", "rc", "start", "end", "said"}. Raises BenchError where no answer comes in time.
        """
        self._count += 1
        self._console.send("run %d %s" % (self._count, " ".join(command)))
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            answer = self._console.answer(every)
            watch()
            if answer is not None and answer.get("id") == self._count:
                return answer
        raise BenchError("the guest %s gave no answer within %d s" % (self.name, timeout))

    def close(self) -> None:
        """Hang up; the domain lives on."""
        self._console.close()


def boot(virsh: Virsh, name: str, xml: str, socket_path: str, timeout: float) -> Guest:
    """Create the domain and wait until its init answers. Raises BenchError, with the domain destroyed."""
    started = time.monotonic()
    virsh.run("create --autodestroy %s" % xml)
    try:
        console = Console(socket_path)
        end = started + timeout
        while time.monotonic() < end:
            hello = console.answer(end - time.monotonic())
            if hello and hello.get("ready"):
                return Guest(virsh, name, console, hello, round(time.monotonic() - started, 1))
        raise BenchError(
            "the guest %s did not start within %d s; its last words: %s"
            % (name, timeout, console.last_words or "none")
        )
    except BenchError:
        with contextlib.suppress(BenchError):
            virsh.run("destroy %s" % name)
        raise


def find_threads(name: str) -> Tuple[int, Dict[str, int]]:
    """The QEMU process of a domain and its threads: {"vcpu0": TID, ..., "emulator": PID}.

    QEMU names its vCPU threads "CPU N/KVM" (libvirt switches that on). Raises BenchError.
    """
    pid_file = "/run/libvirt/qemu/%s.pid" % name
    try:
        with open(pid_file, encoding="ascii") as f:
            process = int(f.read())
        threads = {"emulator": process}
        for tid in os.listdir("/proc/%d/task" % process):
            with open("/proc/%d/task/%s/comm" % (process, tid), encoding="utf-8") as f:
                comm = f.read().strip()
            if comm.startswith("CPU ") and comm.endswith("/KVM"):
                threads["vcpu%d" % int(comm[4:-4])] = int(tid)
    except (OSError, ValueError) as err:
        raise BenchError("cannot find the threads of the domain %s: %s" % (name, err)) from None
    return process, threads


def remove_leftovers(virsh: Virsh) -> List[str]:
    """Destroy domains of ours that an earlier run left (its host was powered off in between)."""
    names = [line.strip() for line in virsh.run("list --all --name").splitlines()]
    ours = [name for name in names if name.startswith(PREFIX)]
    for name in ours:
        virsh.run("destroy %s" % name)
    return ours
