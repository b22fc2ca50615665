"""What a simulated host does with what Ansible sends: the probe, modules of nearmetal, and a few words of shell.

Everything else is refused by name: a simulated host has no shell, and nothing may be run on the controller instead.
"""

from __future__ import annotations

import re
import shlex
import sys
import tempfile
from typing import Any

from . import commands, probe
from .machine import PAYLOAD, Machine

Answer = tuple[int, str, str]

MODULES = (
    "cpu_isolation",
    "gpu_passthrough",
    "host_info",
    "hugepages",
    "kernel_cmdline",
    "network_guard",
    "nic_firmware",
    "pcie_settings",
    "reboot",
    "sriov",
    "vf_lag",
)
"""Modules that reach a host only through `Host`: these are let through."""

PREFIX = "ansible_collections.nearmetal.rack.plugins.modules."
FQN = re.compile(r"\bmodule_fqn=(['\"])([\w.]+)\1")
SUCCESS = re.compile(r"echo (BECOME-SUCCESS-\w+) ?; ?")
SETTLED = re.compile(
    r"for i in \$\(seq \d+\); do systemctl list-jobs .*; (cat /proc/sys/kernel/random/boot_id)"
)
ALLOWED = (
    "cat /proc/sys/kernel/random/boot_id",
    "shutdown -r now",
    "ipmitool chassis power cycle",
    "true",
    "sync",
)
"""Raw commands, word by word; `sync;` and `PATH=...` may stand before them."""
CONFIRM = re.compile(r"/usr/bin/python3 /usr/local/lib/nearmetal/fabric\.pyz confirm [0-9a-f]+")
"""The controller confirms the network guard over a new connection; it is the host's own program that answers."""


class Lost(Exception):
    """There is no connection to the host, or it ended; one sentence."""


def execute(collector: Any, machine: Machine, command: str, data: bytes | None) -> Answer:
    """Run what came over the connection. Raises Lost.

    command: the words of shell; data: what is piped to them (None or empty: nothing).
    """
    _reach(machine)
    try:
        if not data:
            return _raw(machine, command)
        text = data.decode("utf-8", "surrogateescape")
        if probe.is_probe(collector, text):
            try:
                return 0, probe.answer(collector, machine, text), ""
            except probe.NotTheProbe as err:
                return 1, "", f"simulated host: {err}\n"
        return _module(machine, text, data)
    finally:
        with machine.session(changes=False) as state:
            gone = bool(state["boot"]["pending"]) and bool(data)
        if gone:
            raise Lost(f"{machine.name}: the connection ended: the host lost power")


def _reach(machine: Machine) -> None:
    machine.settle()
    with machine.session(changes=False):
        why = machine.reachable()
    if why:
        raise Lost(f"{machine.name} is not reached: {why}")


def _module(machine: Machine, text: str, data: bytes) -> Answer:
    match = FQN.search(text)
    name = match[2] if match else ""
    if not name.startswith(PREFIX) or name.removeprefix(PREFIX) not in MODULES:
        what = f"the module {name}" if name else "a program that is no Ansible module"
        return refuse(f"{what} (let through are: {', '.join(MODULES)} of nearmetal.rack)")
    machine.store.tmp.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=machine.store.tmp) as folder:
        return machine.process(
            [sys.executable, "-P", PAYLOAD, str(machine.store.top / "compiled")], data, folder
        )


def refuse(what: str) -> Answer:
    """The answer to what is not let through."""
    return 127, "", f"simulated host: refused: {what}\n"


def _raw(machine: Machine, command: str) -> Answer:
    words = command.strip()
    while re.match(
        r"(?:sudo |\S*/?sh -c )", words
    ):  # sudo ... /bin/sh -c 'echo BECOME-SUCCESS-... ; COMMAND'
        words = shlex.split(words)[-1].strip()
    found = SUCCESS.match(words)
    success = found[1] + "\n" if found else ""
    words = words[found.end() :] if found else words
    settled = SETTLED.fullmatch(words)
    words = settled[1] if settled else words
    words = re.sub(r"^(?:sync;\s*)?(?:PATH=\S+\s+)?", "", words).removesuffix("&& sleep 0").strip()
    if words not in ALLOWED and not CONFIRM.fullmatch(words):
        return refuse(f"the command {words!r} (let through are: {'; '.join(ALLOWED)})")
    if words in ("true", "sync"):
        return 0, success, ""
    with machine.session():
        try:
            code, out, err = commands.run(machine, shlex.split(words))
        except commands.Unknown as problem:
            return 127, success, f"{problem}: command not found\n"
    return code, success + out, err
