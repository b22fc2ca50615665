"""One simulated host at work: its state under its lock, its clock, its boots, the programs that run on it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import commands, faults, sandbox
from .commands import services
from .files import Files
from .model import boot, grub, net, osfiles, routes, sriov, systemd
from .model.errors import Killed, PowerLoss
from .store import SimError, Store

State = dict[str, Any]
Answer = tuple[int, str, str]

VARIABLE = "NEARMETAL_SIMULATED"
"""Set for programs that run on a simulated host: FOLDER:HOST."""

PAYLOAD = str(Path(__file__).with_name("payload.py"))
RESTART_S = 1.0
"""How long a host is gone when it restarts: long enough that a controller has to wait for it."""
PROGRAM_S = 600.0


class Machine:
    """See the module. All work on `state` and `files` is done inside `session`."""

    def __init__(self, store: Store, name: str) -> None:
        self.store = store
        self.name = name
        self.state: State = {}
        self.files = Files(store, self.state)
        self._stamp: tuple[int, int, int] = (-1, 0, 0)
        self._depth = 0
        self._held = contextlib.ExitStack()

    @contextlib.contextmanager
    def session(self, changes: bool = True) -> Iterator[State]:
        """The state, with the host's lock held; what was changed is kept, also where an error ends it."""
        if self._depth:
            yield self.state
            return
        self._held.enter_context(self.store.lock(self.name))
        self._depth += 1
        try:
            self._load()
            yield self.state
        finally:
            self._depth -= 1
            if changes and self.state:
                self._save()
            self._held.close()

    def _save(self) -> None:
        self.store.save(self.state)
        self._stamp = self.store.stamp(self.name)

    def _load(self) -> None:
        """Read the state again where somebody else has changed it; the dictionary itself stays the same."""
        stamp = self.store.stamp(self.name)
        if stamp != self._stamp or not self.state:
            state = self.store.load(self.name)
            if state is None:
                raise SimError(
                    f"{self.name} is no simulated host: `nearmetal sim reset {self.name}` makes it"
                )
            self.state.clear()
            self.state.update(state)
            self.files.changed()
            self._stamp = stamp
        self.state["now"] = time.time() + self.state["clock"]["offset"]
        self._later()

    def look(self) -> Files:
        """The files as they are now, to read only: without the lock where nothing has changed since the last look."""
        if (
            self._depth
            or self.state
            and not self.state.get("later")
            and self.store.stamp(self.name) == self._stamp
        ):
            return self.files
        with self.session(changes=False):
            return self.files

    def _later(self) -> None:
        """What was to happen by now, such as the network device of a slow VF driver."""
        due = [job for job in self.state.get("later", []) if job["at"] <= self.state["now"]]
        for job in due:
            self.state["later"].remove(job)
            found = sriov.find_vf(self.state, job["address"])
            if found:
                sriov.vf_netdev(self.state, *found)
            self.files.changed(disk=False)

    def settle(self) -> None:
        """Let everything happen that is due: boots and timers. Not from inside a program of the host itself."""
        if self._idle():
            return
        for _round in range(20):
            with self.session(changes=False) as state:
                pending = bool(state["boot"]["pending"]) and state["boot"]["gone_until"] <= state["now"]
                due = sorted(name for name, timer in state["timers"].items() if timer["at"] <= state["now"])
            if not (pending and state["boot"]["pending"] != "off") and not due:
                return
            with self.store.lock(self.name, "boot"):
                self._boot() if pending else self._fire(due[0])

    def _idle(self) -> bool:
        """Whether nothing can be due, as far as is known without the lock."""
        if not self.state or self.store.stamp(self.name) != self._stamp:
            return False
        return not (self.state["boot"]["pending"] or self.state["timers"])

    def restart(self, cold: bool) -> None:
        """Ask for a restart: the host is gone at once, and comes back by itself (see settle)."""
        if "no-reboot" in self.state["faults"]:
            return
        self.state["boot"].update(
            pending="cold" if cold else "warm", gone_until=self.state["now"] + RESTART_S
        )

    def _boot(self) -> None:
        with self.session() as state:
            kind = state["boot"]["pending"]
            if not kind or state["boot"]["gone_until"] > state["now"]:
                return  # somebody else was faster
            boot.down(state, cold=kind == "cold")
            self.files.changed()
            faults.before_boot(state, self.files)
            if not self.files.there("/boot/grub/grub.cfg"):
                with contextlib.suppress(grub.GrubError):
                    boot.update_grub(state, self.files)
            try:
                boot.kernel(state, self.files)
            except grub.GrubError as err:
                state["boot"].update(pending="off", dead=str(err))
                return
            state["boot"]["dead"] = ""
            self.files.changed()
            services.apply_cpusets(self)
            order = systemd.boot_order(state, self.files)
        for name in order:
            with self.session() as state:
                self.start_unit(name)
            if self.state["boot"]["pending"]:
                return  # it died on the way up

    def start_unit(self, name: str) -> str:
        """Start a unit: "" or why it failed. Its programs run without the lock."""
        if services.is_owner(self.state, name) and systemd.active(self.state, name) != "active":
            said = services.boot_network(self)
            self.state["dmesg"] += [f"{name}: {line}" for line in [said] if line]
            self.files.changed(disk=False)
        return systemd.start(self.state, self.files, name, self._unit_program)

    def _unit_program(self, argv: list[str], unit: str) -> tuple[int, str]:
        try:
            code, out, err = commands.run(self, argv)
        except commands.Unknown as problem:
            return 203, f"{problem}: command not found"
        self.files.changed(disk=False)
        return code, (err or out).strip()

    def _fire(self, name: str) -> None:
        with self.session() as state:
            timer = state["timers"].pop(name, None)
            if timer is None:
                return
            unit = f"{name}.service"
            state["units"][unit] = {"active": "active", "result": "running"}
            code, words = self._unit_program(timer["argv"], unit)
            self.state["units"][unit] = {
                "active": "failed" if code else "inactive",
                "result": f"exit-code {code}" if code else "success",
                "words": words[-800:],
            }

    def run_python(self, path: str, data: bytes, words: list[str]) -> Answer:
        """Run a Python program of the host: its file is laid out below the store, it sees the simulated host."""
        self.store.tmp.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.store.tmp) as folder:
            copy = Path(folder) / path.rpartition("/")[2]
            copy.write_bytes(data)
            self._save()
            self._held.close()
            try:
                return self.process(
                    [sys.executable, "-P", PAYLOAD, str(self.store.top / "compiled"), str(copy), *words],
                    b"",
                    folder,
                )
            finally:
                self._held.enter_context(self.store.lock(self.name))
                self._load()

    def process(self, argv: list[str], data: bytes, folder: str) -> Answer:
        """A process on this machine for the host; read-only but for the store, where the kernel allows it."""
        top = str(self.store.top)
        env = {
            "PATH": os.defpath,
            "HOME": folder,
            "TMPDIR": folder,
            "LC_ALL": "C.UTF-8",
            VARIABLE: f"{top}:{self.name}",
            "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        sandbox.prepare()
        done = subprocess.run(
            argv,
            input=data,
            capture_output=True,
            env=env,
            cwd=folder,
            timeout=PROGRAM_S,
            check=False,
            preexec_fn=lambda: sandbox.enter(top) and None,
        )
        return (
            done.returncode,
            done.stdout.decode("utf-8", "surrogateescape"),
            done.stderr.decode("utf-8", "surrogateescape"),
        )

    def step(self, what: str) -> None:
        """Before every change: count it, and let the faults that wait for it strike. Raises PowerLoss or Killed."""
        state = self.state
        state["steps"] += 1
        fate = faults.strikes(state)
        if fate == "power":
            state["boot"].update(pending="cold", gone_until=state["now"] + RESTART_S)
            self._end(PowerLoss(what))
        if fate == "kill":
            self._end(Killed(what))

    def _end(self, how: BaseException) -> None:
        if VARIABLE in os.environ:
            self._save()
            os._exit(137)
        raise how

    def reachable(self) -> str:
        """Nothing ("") where a controller gets through to the host; else why not."""
        state = self.state
        if state["boot"].get("dead"):
            return f"it does not boot: {state['boot']['dead']}"
        if state["boot"]["pending"]:
            return "it is restarting" if state["boot"]["pending"] != "off" else "it is switched off"
        return management_path(state)


def management_path(state: State) -> str:
    """Why the management address is not reached; "" where it is."""
    cidr, _gateway = osfiles.address(state)
    holders = [name for name, device in state["netdevs"].items() if cidr in device["addresses"]]
    if not holders:
        return "no network device has the management address"
    for name in holders:
        if state["netdevs"][name]["master"] in state["bonds"]:
            return f"{name} has the management address, but is a member of {state['netdevs'][name]['master']}"
        if not net.carrier(state, name):
            return f"{name} has the management address, but no link"
    if routes.default(state) not in holders:
        return "there is no default route over the management network"
    return faults.path_broken(state)
