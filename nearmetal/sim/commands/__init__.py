"""What commands say and do on a simulated host. Words that are not known are refused by name, never taken for done."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ..model import osfiles
from ..model.errors import Refusal

Answer = tuple[int, str, str]
Machine = Any

MODULES = {
    "ip": "ip",
    "bridge": "ip",
    "devlink": "devlink",
    "ethtool": "tools",
    "ovs-vsctl": "ovs",
    "ovs-appctl": "ovs",
    "systemctl": "services",
    "systemd-run": "services",
    "networkctl": "services",
    "nmcli": "services",
    "netplan": "services",
    "ifup": "services",
    "ifdown": "services",
    "ifquery": "services",
    "udevadm": "tools",
    "setpci": "tools",
    "modprobe": "tools",
    "update-grub": "tools",
    "update-initramfs": "tools",
    "grub-mkconfig": "tools",
    "mstconfig": "cards",
    "mlxconfig": "cards",
    "mstfwreset": "cards",
    "mlxfwreset": "cards",
    "ipmitool": "tools",
    "dmesg": "tools",
    "sh": "programs",
    "python3": "programs",
    "cat": "tools",
    "shutdown": "tools",
    "reboot": "tools",
    "lspci": "tools",
    "printenv": "tools",
}
"""Program -> module with a function `run(machine, argv, stdin)`."""

ALWAYS = ("cat", "printenv", "sh", "python3", "shutdown", "reboot")


class Unknown(Exception):
    """The program is not installed on this host."""


def not_simulated(argv: list[str]) -> Answer:
    """The one answer to words that the simulator does not know."""
    return 127, "", f"not simulated: {' '.join(argv)}\n"


def run(machine: Machine, argv: list[str], stdin: str = "") -> Answer:
    """Run a command. Raises Unknown where the host has no such program.

    machine: machine.Machine with its state loaded; the state is changed in place.
    """
    program = argv[0].rpartition("/")[2]
    installed = {path.rpartition("/")[2] for path in osfiles.programs(machine.state)}
    if program not in MODULES:
        if argv[0].startswith("/") and machine.files.there(argv[0]):
            return _handler("programs")(machine, argv, stdin)
        return not_simulated(argv)
    if program not in installed and program not in ALWAYS:
        raise Unknown(program)
    try:
        return _handler(MODULES[program])(machine, [program, *argv[1:]], stdin)
    except Refusal as err:
        words = err.words or f"{NETLINK.get(program, program + ':')} {err.reason}"
        return 2 if program in ("ip", "bridge") else 1, "", words + "\n"


def _handler(module: str) -> Callable[[Machine, list[str], str], Answer]:
    handler: Callable[[Machine, list[str], str], Answer] = importlib.import_module(f"{__name__}.{module}").run
    return handler


NETLINK = {"ip": "RTNETLINK answers:", "bridge": "RTNETLINK answers:", "devlink": "kernel answers:"}


def observes(argv: list[str]) -> bool:
    """Whether a command only looks: it then takes no step in the life of the host."""
    program, words = argv[0].rpartition("/")[2], argv[1:]
    if program in ("ip", "bridge", "devlink", "networkctl", "nmcli"):
        return not {
            "set",
            "add",
            "replace",
            "del",
            "delete",
            "reload",
            "reconfigure",
            "up",
            "down",
            "modify",
        } & set(words)
    if program == "systemctl":
        return bool(words) and words[0] in ("is-active", "is-enabled", "show", "status", "cat", "list-units")
    if program == "ethtool":
        return words[:1] != ["-K"]
    if program in ("mstconfig", "mlxconfig"):
        return "set" not in words
    if program == "ovs-vsctl":
        return not any(word in words for word in ("set", "add-br", "del-br", "add-port", "del-port"))
    if program == "setpci":
        return not any("=" in word for word in words)
    return program in ("printenv", "cat", "dmesg", "udevadm", "lspci", "ovs-appctl", "ifquery")
