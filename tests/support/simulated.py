"""A simulated host for tests: `Sim(tmp_path)`; no Ansible, all in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible_collections.nearmetal.rack.plugins.module_utils import host as words

from nearmetal.sim import faults, reset, show
from nearmetal.sim.host import host_for
from nearmetal.sim.machine import Machine
from nearmetal.sim.store import Store

PF0, PF1, OTHER, THIRD = "0000:17:00.0", "0000:17:00.1", "0000:97:00.0", "0000:b1:00.0"
NET0, NET1 = "ens3f0", "ens3f1"
DEVICES = "/sys/bus/pci/devices"
DRIVERS = "/sys/bus/pci/drivers"


class Sim:
    """One host in a folder of its own. Further keywords: its variant (model/factory.py)."""

    def __init__(self, folder: Path, name: str = "h", **variant: Any) -> None:
        self.machine = Machine(Store(folder / "sim"), name)
        reset.reset(self.machine, {"cores": 4, **variant})
        self.host = host_for(words, self.machine)

    def run(self, command: str) -> words.Result:
        """A command in one line."""
        result: words.Result = self.host.run(command.split())
        return result

    def ok(self, *commands: str) -> None:
        """Commands that must succeed."""
        for command in commands:
            said = self.run(command)
            assert said.rc == 0, f"{command}: {said.stderr}"

    def no(self, command: str, words_: str) -> None:
        """A command that must be refused with these words."""
        said = self.run(command)
        assert said.rc != 0, f"{command} was not refused"
        assert words_ in said.stderr + said.stdout

    def poke(self, path: str, text: str) -> str:
        """A write to an attribute: "" or the kernel's word."""
        try:
            self.host.poke(path, text)
        except words.HostError as err:
            return err.reason.rpartition(": ")[2]
        return ""

    def vfs(self, pf: str, count: int, autoprobe: bool = False) -> str:
        """Make VFs, without a driver unless said otherwise."""
        self.poke(f"{DEVICES}/{pf}/sriov_drivers_autoprobe", str(int(autoprobe)))
        return self.poke(f"{DEVICES}/{pf}/sriov_numvfs", str(count))

    def json(self, command: str) -> Any:
        """What a command prints, parsed."""
        return json.loads(self.run(command).stdout)

    def read(self, path: str) -> str:
        """A file, or the reason why it is not read."""
        try:
            return self.host.read(path).strip()
        except words.HostError as err:
            return err.reason

    def inject(self, fault: str) -> None:
        """Plant a fault."""
        with self.machine.session():
            faults.inject(self.machine, fault)
        self.machine.settle()

    def restart(self, cold: bool = False) -> None:
        """Reboot or power cycle at once."""
        with self.machine.session() as state:
            state["boot"].update(pending="cold" if cold else "warm", gone_until=0.0)
        self.machine.settle()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        with self.machine.session() as state:
            state["clock"]["offset"] += seconds
        self.machine.settle()

    def show(self) -> dict[str, Any]:
        """The true state."""
        self.machine.settle()
        with self.machine.session(changes=False):
            return json.loads(json.dumps(show.document(self.machine)))  # type: ignore[no-any-return]

    def vf(self, pf: str, index: int) -> dict[str, Any]:
        """One VF of the true state."""
        return next(vf for vf in self.show()["vfs"] if vf["pf"] == pf and vf["index"] == index)

    def pf(self, address: str) -> dict[str, Any]:
        """One PF of the true state."""
        return next(pf for pf in self.show()["pfs"] if pf["address"] == address)

    def bond(self, *members: str, mode: str = "802.3ad", name: str = "bond0") -> None:
        """Make a bond of devices that are down, and bring it up."""
        self.ok(f"ip link add {name} type bond mode {mode} miimon 100")
        self.ok(*(f"ip link set {member} master {name}" for member in members), f"ip link set {name} up")

    def switchdev(self, *pfs: str) -> None:
        """Change PFs to switchdev mode."""
        self.ok(*(f"devlink dev eswitch set pci/{pf} mode switchdev" for pf in pfs))

    def vf_lag(self, vfs: int = 2, mode: str = "802.3ad") -> None:
        """A working VF LAG of the first card."""
        assert self.vfs(PF0, vfs) == self.vfs(PF1, vfs) == ""
        self.switchdev(PF0, PF1)
        self.bond(NET0, NET1, mode=mode)
        assert self.show()["lag"]["type"] == "switchdev"
