"""The BMCs of a rack's nodes: a process of its own that serves Redfish and starts a node again when it resets.

QEMU cannot change a board while it runs: every reset ends it (`-action reboot=shutdown`), and it is started anew with
what the BIOS then says, as a machine goes through its firmware. Without this process a node that reboots stays off.

Run as `python -m nearmetal.lab.bmcs RACK`.
"""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from nearmetal.bmc.machine import Machine
from nearmetal.bmc.server import BmcServer
from nearmetal.errors import NearmetalError
from nearmetal.lab import bios
from nearmetal.lab.node import Node
from nearmetal.lab.process import Process
from nearmetal.lab.qmp import Qmp
from nearmetal.lab.rack import Rack

USERNAME = "admin"
RESETS = ("guest-reset", "host-qmp-system-reset")
LOCK_S = 600
LOOK_S = 0.3
#: QEMU 10.0 may crash while a guest maps its PCI devices (iotlb_to_section: assertion failed); it is tried again so often.
CRASHES = 3


class NodePower:
    """Power button of a node. `reports_boot`: the node's own reset tells when it boots."""

    reports_boot = True

    def __init__(self, rack: str, node: str) -> None:
        self._rack, self._node = rack, node
        self.again = False

    def node(self) -> Node:
        """The node as its state file has it now."""
        return Rack(self._rack).node(self._node)

    def on(self) -> None:
        """Start it from its disk, unless it runs."""
        with self._locked() as node:
            if not node.running():
                node.stop()
                node.start()

    def off(self, graceful: bool = False) -> None:
        """Pull the plug, or press the button."""
        if graceful:
            self._tell("system_powerdown")
            return
        with self._locked() as node:
            node.stop()

    def ended(self, process: Process, booting: Callable[[], object] | None) -> None:
        """Follow a QEMU that ended: start another one after `booting`, or write down that the node is off.

        Nothing where somebody else did either meanwhile.
        """
        with self._locked() as node:
            if node.state.process == process:
                node.stop()
                if booting:
                    booting()
                    node.start()

    def reset(self, graceful: bool = False) -> None:
        """Reset at once, or ask the system to end and start it again then."""
        self.again = graceful
        self._tell("system_powerdown" if graceful else "system_reset")

    def state(self) -> str:
        """Whether QEMU runs."""
        return "On" if self.node().running() else "Off"

    @contextlib.contextmanager
    def _locked(self) -> Iterator[Node]:
        rack = Rack(self._rack)
        with rack.store.lock(wait_s=LOCK_S):
            rack.state = rack.store.load()
            yield rack.node(self._node)

    def _tell(self, command: str) -> None:
        with Qmp(self.node().files.socket("qmp")) as qmp:
            qmp.execute(command)


def why_it_ended(path: Path) -> str | None:
    """Listen to a QEMU until it ends; its reason, "" where it gave none, None where it cannot be listened to."""
    with socket.socket(socket.AF_UNIX) as sock:
        try:
            sock.connect(str(path))
        except OSError:
            return None
        reason = ""
        with contextlib.suppress(OSError, ValueError), sock.makefile("r", encoding="utf-8") as file:
            sock.sendall(b'{"execute": "qmp_capabilities"}\n')
            for line in file:
                event = json.loads(line)
                if event.get("event") == "SHUTDOWN":
                    reason = str(event["data"]["reason"])
        return reason


def watch(machine: Machine, power: NodePower, over: threading.Event) -> None:
    """Boot a node again whenever it resets, and a few times in a row where its QEMU crashes.

    One that ended while nobody listened (the BMCs were being started) is taken to have reset: a node that stays off
    is what nobody asked for.
    """
    crashes = 0
    while not over.wait(LOOK_S):
        with contextlib.suppress(NearmetalError, OSError):
            node = power.node()
            process = node.state.process
            if process is None:
                continue
            reason = why_it_ended(node.files.socket("events"))
            if over.is_set():
                return
            if reason is None and process.alive():
                continue  # it only starts
            crashes = 0 if reason else crashes + 1
            again = reason in RESETS or reason == "guest-shutdown" and power.again or not reason and crashes <= CRASHES
            power.again = False
            if not reason:
                print(f"{node.name}: QEMU ended without a word: {node.last_words()}", flush=True)
            power.ended(process, machine.boot_up if again else None)


def serve(name: str, over: threading.Event) -> None:
    """Serve the BMCs of all nodes until `over` is set."""
    rack = Rack(name)
    password = rack.bmc_password()
    with contextlib.ExitStack() as stack:
        for spec in rack.specs.values():
            path = rack.node(spec.name).files.bios
            power = NodePower(name, spec.name)
            machine = bios.machine(path, spec.number, power)
            machine.on_change = lambda path=path, machine=machine: bios.keep(path, machine)  # type: ignore[misc]
            port = rack.state.nodes[spec.name].bmc_port
            stack.enter_context(
                BmcServer(machine, port=port, username=USERNAME, password=password, folder=rack.store.keys)
            )
            threading.Thread(target=watch, args=(machine, power, over), daemon=True).start()
        over.wait()


if __name__ == "__main__":
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    serve(sys.argv[1], ended)
