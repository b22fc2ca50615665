"""One node: its QEMU process, its snapshots, and the way in by ssh."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ..errors import USAGE, NearmetalError
from . import bios, process
from .progress import Progress
from .qemu import Hardware, NodeFiles, NodeSpec, command
from .qmp import Qmp
from .store import NodeState

TAG = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}")
LOGIN_S = 60
PANIC = b"Kernel panic - not syncing"


class Interrupted(Exception):
    """The command was interrupted while it waited for a node."""


class NotBooted(NearmetalError):
    """The node's QEMU runs, or ran, but the node never answered."""


class Node:
    """A node of a rack. Not safe for two threads at a time; two nodes are."""

    def __init__(
        self,
        spec: NodeSpec,
        hardware: Hardware,
        files: NodeFiles,
        state: NodeState,
        save: Callable[[], None],
        ssh_config: Path,
        progress: Progress,
        cancel: threading.Event,
    ) -> None:
        self.spec, self._hardware, self.files, self.state = spec, hardware, files, state
        self._save, self._ssh_config, self._progress, self._cancel = save, ssh_config, progress, cancel
        self._serial_start = 0

    @property
    def name(self) -> str:
        """Its host name."""
        return self.spec.name

    @property
    def hardware(self) -> Hardware:
        """What it is made of, as its BIOS has it now."""
        return dataclasses.replace(self._hardware, firmware=bios.firmware(self.files.bios, self.spec.number))

    def say(self, text: str) -> None:
        """A progress line about this node."""
        self._progress.say(text, self.name)

    def running(self) -> bool:
        """Whether its QEMU process is there."""
        return self.state.running()

    # -- process

    def start(self, snapshot: str = "") -> None:
        """Start its QEMU, from its disk or from a snapshot; returns when QEMU answers, not when it has booted."""
        if self.running():
            raise NearmetalError(f"{self.name} is already running")
        log = self.files.qemu_log
        log.write_text("")
        self.forget_serial()
        argv = command(self.spec, self.hardware, self.files, self.state.port, snapshot)
        self.state.process, child = process.spawn(argv, log)
        self._save()
        end = time.monotonic() + 120
        while True:
            self._check_cancel()
            if child.poll() is not None or not self.running():
                said = self.last_words()
                self.stop()
                raise NearmetalError(f"QEMU of {self.name} did not start: {said}")
            with contextlib.suppress(OSError), Qmp(self.files.socket("qmp"), timeout=30) as qmp:
                qmp.execute("query-status")
                return
            if time.monotonic() > end:
                self.stop()
                raise NearmetalError(f"QEMU of {self.name} does not answer on its control socket; log: {log}")
            time.sleep(0.1)

    def last_words(self) -> str:
        """What QEMU said last, as a reason."""
        text = self.files.qemu_log.read_text(errors="replace").strip()
        if "Could not set up host forwarding" in text:
            return f"port {self.state.port} on 127.0.0.1 is taken by another program"
        if "write" in text and "lock" in text:
            return f"its disk {self.files.disk} is in use by another process"
        return text.splitlines()[-1] if text else f"it said nothing; log: {self.files.qemu_log}"

    def stop(self) -> None:
        """End its QEMU at once, as pulling the plug does; nothing if it does not run."""
        if self.state.process is None:
            return
        if self.running():
            with contextlib.suppress(OSError, NearmetalError), Qmp(self.files.socket("qmp"), timeout=5) as qmp:
                qmp.execute("quit")
            if not process.wait_gone(self.state.process, 5):
                process.stop(self.state.process)
        process.wait_gone(self.state.process, 0)
        self.state.process = None
        self._save()

    def qmp(self, execute: str) -> None:
        """Run one command of QEMU's control socket."""
        if not self.running():
            raise NearmetalError(f"{self.name} is not running")
        with Qmp(self.files.socket("qmp")) as qmp:
            qmp.execute(execute)

    def monitor(self, line: str) -> str:
        """Run one line of QEMU's human monitor, such as `set_link f0 off`."""
        if not self.running():
            raise NearmetalError(f"{self.name} is not running")
        with Qmp(self.files.socket("qmp")) as qmp:
            return qmp.monitor(line)

    # -- snapshots

    def snapshot(self, tag: str) -> None:
        """Keep memory and disk as they are now under this name; replaces one of the same name."""
        if not TAG.fullmatch(tag):
            raise NearmetalError(f"{tag!r} is no name for a snapshot: letters, digits, . _ -, a letter first", USAGE)
        self.monitor(f"savevm {tag}")
        kept = self._kept_bios(tag)
        kept.unlink(missing_ok=True)
        if self.files.bios.exists():
            shutil.copyfile(self.files.bios, kept)
        if tag not in self.state.snapshots:
            self.state.snapshots.append(tag)
        self._save()

    def restore_bios(self, tag: str = "") -> None:
        """Set the BIOS to what it was at a snapshot; as from the factory without one. Its BMC must be off."""
        kept = self._kept_bios(tag)
        self.files.bios.unlink(missing_ok=True)
        if tag and kept.exists():
            shutil.copyfile(kept, self.files.bios)

    def _kept_bios(self, tag: str) -> Path:
        return self.files.bios.with_name(f"bios.{tag}.json")

    def new_disk(self, image: Path) -> None:
        """An empty overlay over the image and a BIOS as from the factory; all snapshots are gone."""
        self.restore_bios()
        self.state.snapshots.clear()
        self._save()
        self.files.disk.unlink(missing_ok=True)
        subprocess.run(
            ["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(image), "-F", "qcow2", str(self.files.disk)],
            check=True, stdin=subprocess.DEVNULL, capture_output=True,
        )

    # -- ssh

    def run(self, line: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run a shell line on the node as root. Raises subprocess.TimeoutExpired; never for its exit status."""
        with self._ssh(line, timeout) as child:
            out, err = child.communicate()
        self._check_cancel()
        if child.returncode == -signal.SIGKILL:
            raise subprocess.TimeoutExpired(line, timeout, out, err)
        return subprocess.CompletedProcess(line, child.returncode, out, err)

    @contextlib.contextmanager
    def _ssh(self, line: str, timeout: float) -> Iterator[subprocess.Popen[str]]:
        """An ssh client that runs a shell line; killed after `timeout` seconds, or when the command is cancelled."""
        argv = ["ssh", "-F", str(self._ssh_config), "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", self.name, line]
        pipe = subprocess.PIPE
        with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as child:
            over = threading.Event()
            guard = threading.Thread(target=_guard, args=(child, over, self._cancel, timeout), daemon=True)
            guard.start()
            try:
                yield child
            finally:
                over.set()
                guard.join()

    def forget_serial(self) -> None:
        """What the serial port said until now does not count in `wait_ready`."""
        with contextlib.suppress(FileNotFoundError):
            self._serial_start = self.files.serial_log.stat().st_size

    def wait_ready(self, limit_s: float, stall_s: float) -> None:
        """Wait until ssh lets us in, and set the clock, which stood still while the node was a snapshot.

        Raises NotBooted after `limit_s`, or when the serial port and ssh are silent for `stall_s`, or if the
        kernel panics or QEMU ends.
        """
        end = time.monotonic() + limit_s
        size, moved = -1, time.monotonic()
        last = "ssh does not answer"
        while True:
            self._check_cancel()
            if self._banner():
                moved = time.monotonic()
                last = self._login()
                if not last:
                    return
            log = self._serial()
            if len(log) != size:
                size, moved = len(log), time.monotonic()
            if trouble := self._trouble(log, end, moved + stall_s):
                raise NotBooted(f"{self.name} {trouble}; {last}; serial log: {self.files.serial_log}")
            time.sleep(0.3)

    def _trouble(self, serial: bytes, end: float, stall_end: float) -> str:
        if not self.running():
            return f"went away: {self.last_words()}"
        if PANIC in serial:
            return "panicked"
        if time.monotonic() > stall_end:
            return "hangs: nothing on its serial port or ssh"
        return "did not come up in time" if time.monotonic() > end else ""

    def _serial(self) -> bytes:
        with contextlib.suppress(FileNotFoundError), self.files.serial_log.open("rb") as f:
            f.seek(self._serial_start)
            return f.read()
        return b""

    def _banner(self) -> bool:
        """Whether an ssh server greets; QEMU accepts the connection long before the node does."""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.state.port), timeout=3) as s:
            return s.recv(4) == b"SSH-"
        return False

    def _login(self) -> str:
        """Log in and set the clock; returns why not, "" if it worked.

        The time is sent once the node asks for it, as the login itself may take long.
        """
        with self._ssh("echo time; read now && date -s @$now", LOGIN_S) as child:
            asked = child.stdout.readline() if child.stdout else ""
            _, err = child.communicate(f"{time.time():.2f}\n" if asked else None)
        if child.returncode == 0:
            return ""
        return f"ssh says: {err.strip()[-200:]}" if child.returncode > 0 else "ssh greets but the login hangs"

    def _check_cancel(self) -> None:
        if self._cancel.is_set():
            raise Interrupted


def _guard(child: subprocess.Popen[str], over: threading.Event, cancel: threading.Event, timeout: float) -> None:
    """Kill a child that takes too long, or that nobody waits for any more."""
    end = time.monotonic() + timeout
    while not over.wait(0.3):
        if cancel.is_set() or time.monotonic() > end:
            child.kill()
            return
