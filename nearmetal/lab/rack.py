"""A virtual rack: nodes, their switch, keys and inventory, brought up and down as one."""

from __future__ import annotations

import dataclasses
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_all
from pathlib import Path
from typing import Any

from ..errors import USAGE, NearmetalError
from . import accel, bios, boot, identity, image, inventory, ports, preflight, process
from .node import Interrupted, Node
from .progress import Progress
from .qemu import Hardware, NodeFiles, NodeSpec, fingerprint, mac
from .recipe import Recipe
from .store import NodeState, Store

DEFAULT_NODES = (NodeSpec("node1", 1), NodeSpec("node2", 2))
POWER = {"off": "", "on": "", "reset": "system_reset", "shutdown": "system_powerdown"}
#: A Unix socket's path has at most 107 bytes; the names inside the folder take up to 20.
RUNTIME_PATH_MAX = 80
INTERRUPTED = 130
RESTART_S = 60


class Rack:
    """One rack of this machine. Commands that change it hold its lock; reading its status does not."""

    def __init__(
        self,
        name: str = inventory.DEFAULT_RACK,
        progress: Progress | None = None,
        specs: Sequence[NodeSpec] = DEFAULT_NODES,
        limits: boot.Limits | None = None,
    ) -> None:
        self.store = Store(name)
        self.name = name
        self.specs = {spec.name: spec for spec in specs}
        self.progress = progress or Progress(quiet=True)
        self.limits = limits or boot.Limits()
        self.recipe = Recipe()
        self.state = self.store.load()
        self._cancel = threading.Event()

    @property
    def inventory(self) -> Path:
        """Where the generated inventory is."""
        return inventory.inventory_path(self.name, self.store.folder)

    @property
    def ssh_config(self) -> Path:
        """OpenSSH client configuration with every node by name."""
        return self.store.keys / "config"

    # -- whole rack

    def up(self, ssh_port: int | None = None) -> None:
        """Start what does not run. When it fails or is interrupted, nothing it started is left running."""
        self._cancel.clear()
        with self.store.lock():
            self.state = self.store.load()
            before = {name for name, node in self.state.nodes.items() if node.running()}
            try:
                self._up(ssh_port, before)
            except BaseException as err:
                with process.uninterrupted():
                    self._stop_nodes(set(self.specs) - before)
                    if not before:
                        self._stop_bmcs()
                        self._stop_switch()
                if isinstance(err, KeyboardInterrupt | Interrupted):
                    said = "Interrupted; nothing that was started is left running."
                    raise NearmetalError(said, INTERRUPTED) from None
                raise

    def _up(self, ssh_port: int | None, before: set[str]) -> None:
        preflight.check_run_tools()
        preflight.check_memory(s.memory_mib for s in self.specs.values() if s.name not in before)
        self.store.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = sum(1 for name in self.specs if not (self.store.node_folder(name) / "disk.qcow2").exists())
        preflight.check_disk(self.store.folder, preflight.NODE_GIB * new)
        base = image.ensure_image(self.recipe, self.progress, self._cancel)
        self._choose_hardware()
        self._choose_ports(ssh_port, before)
        self._write_keys()
        self._start_switch()
        prints = {name: self._fingerprint(name, base) for name in self.specs}
        if before != set(self.specs):
            self._stop_bmcs()
        self._each(self.specs, lambda node: boot.bring_up(node, base, prints[node.name], self.limits))
        self._start_bmcs()
        self._write_access()
        self.progress.say(f"rack {self.name} is up; inventory: {self.inventory}")

    def down(self, purge: bool = False) -> None:
        """End every process of the rack; with `purge` forget its disks and keys too."""
        if not self.store.folder.exists():
            self.progress.say(f"rack {self.name} was never up")
            return
        with self.store.lock(), process.uninterrupted():
            self.state = self.store.load()
            self._stop_bmcs()
            self._stop_nodes(self.state.nodes)
            self._stop_switch()
        self.progress.say(f"rack {self.name} is down")
        if purge:
            shutil.rmtree(self.store.folder, ignore_errors=True)
            self.inventory.unlink(missing_ok=True)

    def reset(self, names: Iterable[str] = ()) -> None:
        """Bring nodes (all that the rack has, if none is named) back to their first boot."""
        chosen = list(names) or list(self.state.nodes)
        if not chosen:
            raise NearmetalError(f"Rack {self.name} was never up: nearmetal lab up --name {self.name}")
        with self.store.lock():
            self._load(chosen, boot.FACTORY)

    # -- one node

    def snapshot(self, name: str, tag: str) -> None:
        """Keep a running node's memory and disk under a name."""
        with self.store.lock(wait_s=60):
            self.state = self.store.load()
            self.node(name).snapshot(tag)

    def load(self, name: str, tag: str) -> None:
        """Go on from a snapshot; ready for ssh on return."""
        with self.store.lock(wait_s=60):
            self._load([name], tag)

    def _load(self, names: Iterable[str], tag: str) -> None:
        """A BMC forgets what it knows of its node, whose BIOS is set back with the rest."""
        self._reload_for_nodes()
        self._stop_bmcs()
        try:
            self._each(names, lambda node: boot.load(node, tag, self.limits))
        finally:
            self._start_bmcs()
        self._write_access()

    def power(self, name: str, action: str, wait: bool = False) -> None:
        """Do to a node what its power button and its BMC do: on, off (at once), shutdown (asks it), reset.

        `on` boots from the disk as it was left; with `wait` it returns when the node answers ssh.
        """
        if action not in POWER:
            raise NearmetalError(f"power {action!r} is unknown: one of {', '.join(POWER)}", USAGE)
        with self.store.lock(wait_s=60):
            self._reload_for_nodes()
            node = self.node(name)
            former = node.state.process
            if action == "off":
                node.stop()
            elif action == "on" and not node.running():
                node.stop()
                node.start()
            elif action != "on":
                node.qmp(POWER[action])
            self._write_access()
        if action == "reset":
            node = self._restarted(name, former)
        if wait and action in ("on", "reset"):
            node.wait_ready(self.limits.boot, self.limits.stall)

    def _restarted(self, name: str, former: process.Process | None) -> Node:
        """The node once its BMC has started it again."""
        end = time.monotonic() + RESTART_S
        while time.monotonic() < end:
            self.state = self.store.load()
            node = self.node(name)
            if node.running() and node.state.process != former:
                node.forget_serial()
                return node
            time.sleep(0.1)
        raise NearmetalError(f"{name} was reset, but its BMC did not start it again; log: {self.store.folder / 'bmcs.log'}")

    def ssh_argv(self, name: str, command: Sequence[str] = ()) -> list[str]:
        """The command that logs in to a node, or runs something on it."""
        if not self._node_state(name).running():
            raise NearmetalError(f"{name} is not running: nearmetal lab up --name {self.name}")
        return ["ssh", "-F", str(self.ssh_config), name, *command]

    def status(self) -> dict[str, Any]:
        """What the rack is like now; see the command `nearmetal lab status --json`."""
        self.state = self.store.load()
        nodes = []
        for name, node in self.state.nodes.items():
            alive = node.process if node.running() else None
            nodes.append(
                {
                    "name": name,
                    "state": "running" if alive else "stopped",
                    "pid": alive.pid if alive else None,
                    "ssh_port": node.port,
                    "bmc": bmc_url(node.bmc_port),
                    "accel": self.state.accel,
                    "memory_mib": self.specs[name].memory_mib if name in self.specs else None,
                    "rss_mib": _rss_mib(alive.pid) if alive else None,
                    "snapshots": list(node.snapshots),
                    "serial_log": str(self._files(name).serial_log),
                }
            )
        switch = self.state.switch if self.state.switch and self.state.switch.alive() else None
        bmcs = self.state.bmcs if self.state.bmcs and self.state.bmcs.alive() else None
        return {
            "schema": 1,
            "name": self.name,
            "up": bool(nodes) and all(n["state"] == "running" for n in nodes),
            "inventory": str(self.inventory) if self.inventory.exists() else None,
            "ssh_config": str(self.ssh_config) if self.ssh_config.exists() else None,
            "bmcs": {"state": "running" if bmcs else "stopped", "pid": bmcs.pid if bmcs else None},
            "switch": {"state": "running" if switch else "stopped", "pid": switch.pid if switch else None},
            "nodes": nodes,
        }

    # -- parts

    def node(self, name: str) -> Node:
        """The node of this name, to run things on or to speak to its monitor."""
        state = self._node_state(name)
        hardware = self._hardware(name)
        return Node(
            self.specs[name], hardware, self._files(name), state, lambda: self.store.save(self.state),
            self.ssh_config, self.progress, self._cancel,
        )  # fmt: skip

    def _node_state(self, name: str) -> NodeState:
        if name not in self.specs:
            raise NearmetalError(f"Rack {self.name} has no node {name!r}; it has: {', '.join(self.specs)}", USAGE)
        if name not in self.state.nodes:
            raise NearmetalError(f"Rack {self.name} was never up: nearmetal lab up --name {self.name}")
        return self.state.nodes[name]

    def _files(self, name: str) -> NodeFiles:
        return NodeFiles(self.store.node_folder(name), Path(self.state.runtime or "/nonexistent"), name)

    def _hardware(self, name: str) -> Hardware:
        spec = self.specs[name]
        macs = {card: mac(self.name, spec.number, i) for i, card in enumerate((*spec.cards, "mgmt"))}
        version = preflight.parse_version(self.state.qemu) if self.state.qemu else preflight.QEMU_NEEDED
        return Hardware(self.state.nodes[name].uuid, self.state.accel, version, macs)

    def _choose_hardware(self) -> None:
        """Accelerator and identity; both stay while something of the rack runs or its snapshots are to be used."""
        said = subprocess.run([preflight.QEMU, "--version"], capture_output=True, text=True, check=False).stdout
        self.state.qemu = said.splitlines()[0]
        self.state.accel = accel.choose(self.state.qemu, image.kernel_path(self.recipe), self.progress)
        for name in self.specs:
            self.state.nodes.setdefault(name, NodeState(uuid=str(uuid.uuid4())))
            self.store.node_folder(name).mkdir(parents=True, exist_ok=True)
        self.store.save(self.state)

    def _fingerprint(self, name: str, base: Path) -> str:
        info = base.stat()
        built = f"{base.name}:{info.st_size}:{info.st_mtime_ns}"
        new = dataclasses.replace(self._hardware(name), firmware=bios.firmware(None, self.specs[name].number))
        return fingerprint(self.specs[name], new, built, self.state.qemu)

    def _choose_ports(self, first: int | None, before: set[str]) -> None:
        starting = [name for name in self.specs if name not in before]
        if first is not None:
            for name, port in zip(starting, ports.asked(first, len(starting)), strict=True):
                self.state.nodes[name].port = port
        for name in starting:
            node = self.state.nodes[name]
            others = {n.port for key, n in self.state.nodes.items() if key != name} | {n.bmc_port for n in self.state.nodes.values()}
            if not node.port or not ports.is_free(node.port):
                if node.port:
                    self.progress.say(f"port {node.port} is taken by another program by now, choosing another", name)
                node.port = ports.choose(others)
        self.store.save(self.state)

    def _write_keys(self) -> None:
        """Keys of the rack and its nodes, the nodes' seeds, and what ssh needs to check them."""
        self.store.keys.mkdir(parents=True, exist_ok=True, mode=0o700)
        login = identity.keypair(self.store.keys / "id_ed25519", f"nearmetal-lab-{self.name}")
        known = {}
        for name in self.specs:
            key = self.store.keys / f"host_{name}"
            known[identity.alias(name, self.name)] = identity.keypair(key, name)
            seed = self._files(name).seed
            seed.touch(mode=0o600)
            seed.write_bytes(identity.seed(name, key, login))
        (self.store.keys / "known_hosts").write_text(identity.known_hosts(known))
        self._write_access()

    def _write_access(self) -> None:
        """OpenSSH configuration and inventory with the ports of now."""
        hosts = [(name, self.state.nodes[name].port) for name in self.specs if name in self.state.nodes]
        self.ssh_config.write_text(identity.ssh_config(hosts, self.name, self.store.keys))
        nodes = [(self.specs[name], port) for name, port in hosts]
        bmcs = {name: bmc_url(self.state.nodes[name].bmc_port) for name, _port in hosts}
        inventory.write(self.inventory, inventory.document(self.name, self.store.keys, nodes, bmcs, self.bmc_password()))

    def _reload_for_nodes(self) -> None:
        """Read the state again and make sure that the switch and free ports are there for a node to start."""
        self.state = self.store.load()
        if not self.state.nodes:
            raise NearmetalError(f"Rack {self.name} was never up: nearmetal lab up --name {self.name}")
        preflight.check_run_tools()
        self._choose_ports(None, {name for name, node in self.state.nodes.items() if node.running()})
        self._start_switch()

    def _each(self, names: Iterable[str], work: Callable[[Node], None]) -> None:
        """Do the same to several nodes side by side. Raises one error that names each node that failed."""
        nodes = [self.node(name) for name in names]
        with ThreadPoolExecutor(len(nodes)) as pool:
            jobs = {pool.submit(work, node): node.name for node in nodes}
            try:
                wait_all(jobs)
            except BaseException:
                self._cancel.set()
                raise
        errors = {name: job.exception() for job, name in jobs.items() if job.exception()}
        for error in errors.values():
            if error and not isinstance(error, NearmetalError):
                raise error
        if errors:
            raise NearmetalError("\n".join(getattr(e, "message", str(e)) for e in errors.values()))

    # -- BMCs

    def bmc_password(self) -> str:
        """What the BMCs of this rack ask for; made once."""
        path = self.store.keys / "bmc.password"
        if not path.exists():
            self.store.keys.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.touch(mode=0o600)
            path.write_text(secrets.token_urlsafe(12))
        return path.read_text()

    def _start_bmcs(self) -> None:
        if self.state.bmcs and self.state.bmcs.alive():
            return
        for node in self.state.nodes.values():
            if not node.bmc_port or not ports.is_free(node.bmc_port):
                node.bmc_port = ports.choose({n for other in self.state.nodes.values() for n in (other.port, other.bmc_port)})
        log = self.store.folder / "bmcs.log"
        log.write_text("")
        self.store.save(self.state)
        self.bmc_password()
        self.state.bmcs, child = process.spawn([sys.executable, "-m", "nearmetal.lab.bmcs", self.name], log)
        self.store.save(self.state)
        end = time.monotonic() + 30
        while any(ports.is_free(node.bmc_port) for node in self.state.nodes.values()):
            if child.poll() is not None or time.monotonic() > end:
                raise NearmetalError(f"The BMCs of rack {self.name} did not start; log: {log}")
            time.sleep(0.05)

    def _stop_bmcs(self) -> None:
        if self.state.bmcs:
            process.stop(self.state.bmcs)
        self.state.bmcs = None
        self.store.save(self.state)

    # -- switch

    def _start_switch(self) -> None:
        if self.state.switch and self.state.switch.alive():
            return
        if not self.state.runtime or not Path(self.state.runtime).is_dir():
            self.state.runtime = str(_runtime_folder())
            self.store.save(self.state)
        sockets = [self._files(s.name).socket(card) for s in self.specs.values() for card in s.cards]
        argv = [sys.executable, "-m", "nearmetal.lab.switch", *map(str, sockets)]
        log = self.store.folder / "switch.log"
        log.write_text("")
        self.state.switch, child = process.spawn(argv, log)
        self.store.save(self.state)
        end = time.monotonic() + 30
        while not all(path.exists() for path in sockets):
            if child.poll() is not None or time.monotonic() > end:
                raise NearmetalError(f"The switch of rack {self.name} did not start; log: {log}")
            time.sleep(0.05)

    def _stop_switch(self) -> None:
        if self.state.switch:
            process.stop(self.state.switch)
        if self.state.runtime:
            shutil.rmtree(self.state.runtime, ignore_errors=True)
        self.state.switch, self.state.runtime = None, ""
        self.store.save(self.state)

    def _stop_nodes(self, names: Iterable[str]) -> None:
        for name in list(names):
            if name in self.state.nodes and name in self.specs:
                self.node(name).stop()


def bmc_url(port: int) -> str:
    """Where a node's BMC is."""
    return f"https://127.0.0.1:{port}"


def _runtime_folder() -> Path:
    """A folder for sockets with a short enough path, readable by its owner only."""
    bases = (os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp")
    usable = [b for b in bases if b and len(b) < RUNTIME_PATH_MAX - 24 and os.access(b, os.W_OK | os.X_OK)]
    if not usable:
        raise NearmetalError(f"No folder for the rack's sockets can be written: tried {', '.join(filter(None, bases))}")
    return Path(tempfile.mkdtemp(prefix="nearmetal-lab-", dir=usable[0]))


def _rss_mib(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20
