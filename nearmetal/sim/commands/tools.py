"""Smaller tools: ethtool, setpci, modprobe, udevadm, update-grub, ipmitool, dmesg, shutdown, cat."""

from __future__ import annotations

from typing import Any

from ..model import boot, grub, osfiles, setpci
from . import Answer, Machine, not_simulated

State = dict[str, Any]


def run(machine: Machine, argv: list[str], stdin: str) -> Answer:
    """One of them."""
    return HANDLERS[argv[0]](machine, argv)  # type: ignore[no-any-return]


def _ethtool(machine: Machine, argv: list[str]) -> Answer:
    state = machine.state
    if len(argv) < 3 or argv[1] not in ("-k", "-K"):
        return not_simulated(argv)
    device = state["netdevs"].get(argv[2])
    if device is None:
        return 1, "", "netlink error: no device matches name (offset 24)\nnetlink error: No such device\n"
    known = state["pfs"].get(device["pci"]) if device["kind"] == "pf" else None
    able = known is not None and known["kind"] == "mlx5"
    if argv[1] == "-k" and len(argv) == 3:
        offload = "on" if known and known["tc_offload"] else "off"
        lines = [
            "rx-checksumming: on",
            "tcp-segmentation-offload: on",
            f"hw-tc-offload: {offload}{'' if able else ' [fixed]'}",
        ]
        return 0, f"Features for {argv[2]}:\n" + "\n".join(lines) + "\n", ""
    if (
        argv[1] == "-K"
        and argv[3:4] == ["hw-tc-offload"]
        and argv[4:5] in (["on"], ["off"])
        and len(argv) == 5
    ):
        if known is None or not able:
            return 1, "", "Could not change any device features\n"
        known["tc_offload"] = argv[4] == "on"
        return 0, "", ""
    return not_simulated(argv)


def _setpci(machine: Machine, argv: list[str]) -> Answer:
    said = setpci.run(machine.state, argv)
    return not_simulated(argv) if said is None else said


KNOWN_MODULES = (
    "vfio-pci",
    "vfio_pci",
    "bonding",
    "bridge",
    "8021q",
    "mlx5_core",
    "mlx5_ib",
    "act_mirred",
    "cls_flower",
    "igbvf",
    "openvswitch",
)


def _modprobe(machine: Machine, argv: list[str]) -> Answer:
    words = [word for word in argv[1:] if word not in ("-q", "--")]
    if len(words) != 1 or words[0].startswith("-"):
        return not_simulated(argv)
    if words[0] not in KNOWN_MODULES:
        return (
            1,
            "",
            f"modprobe: FATAL: Module {words[0]} not found in /lib/modules/{machine.state['boot']['release']}\n",
        )
    name = words[0].replace("_", "-") if words[0].startswith("vfio") else words[0]
    there = machine.state.setdefault("modules", [])
    if name not in there:
        there.append(name)
        if name == "vfio-pci":
            machine.state["new_ids"] = boot.vfio_ids(
                boot.arguments(machine.state["boot"]["cmdline"]), machine.files
            )
    return 0, "", ""


def _udevadm(machine: Machine, argv: list[str]) -> Answer:
    return (0, "", "") if argv[1:2] in (["settle"], ["trigger"], ["control"]) else not_simulated(argv)


def _update_grub(machine: Machine, argv: list[str]) -> Answer:
    if argv[0] == "grub-mkconfig" and argv[1:] != ["-o", "/boot/grub/grub.cfg"]:
        return not_simulated(argv)
    try:
        boot.update_grub(machine.state, machine.files)
    except grub.GrubError as err:
        return 2, "", f"/usr/sbin/grub-mkconfig: /etc/default/grub: {err}\n"
    found = "".join(f"Found linux image: /boot/vmlinuz-{kernel}\n" for kernel in machine.state["kernels"])
    return 0, "", f"Generating grub configuration file ...\n{found}done\n"


def _update_initramfs(machine: Machine, argv: list[str]) -> Answer:
    if argv[1:] not in (["-u", "-k", "all"], ["-u"]):
        return not_simulated(argv)
    said = "".join(
        f"update-initramfs: Generating /boot/initrd.img-{kernel}\n" for kernel in machine.state["kernels"]
    )
    return 0, said, ""


def _ipmitool(machine: Machine, argv: list[str]) -> Answer:
    if argv[1:] != ["chassis", "power", "cycle"]:
        return not_simulated(argv)
    machine.restart(cold=True)
    return 0, "Chassis Power Control: Cycle\n", ""


def _shutdown(machine: Machine, argv: list[str]) -> Answer:
    if argv[0] == "shutdown" and "-r" not in argv[1:]:
        return not_simulated(argv)
    machine.restart(cold=False)
    return 0, "", ""


def _dmesg(machine: Machine, argv: list[str]) -> Answer:
    return 0, "".join(f"[   10.000000] {line}\n" for line in machine.state["dmesg"]), ""


def _cat(machine: Machine, argv: list[str]) -> Answer:
    if len(argv) != 2:
        return not_simulated(argv)
    text = machine.files.read_text(argv[1])
    return (0, text, "") if text is not None else (1, "", f"cat: {argv[1]}: No such file or directory\n")


def _printenv(machine: Machine, argv: list[str]) -> Answer:
    known = {"SSH_CONNECTION": osfiles.ssh_connection(machine.state), "LC_ALL": "C"}
    return (0, known[argv[1]] + "\n", "") if argv[1:2] and argv[1] in known else (1, "", "")


def _lspci(machine: Machine, argv: list[str]) -> Answer:
    return not_simulated(argv)


HANDLERS: dict[str, Any] = {
    "ethtool": _ethtool,
    "setpci": _setpci,
    "modprobe": _modprobe,
    "udevadm": _udevadm,
    "update-grub": _update_grub,
    "update-initramfs": _update_initramfs,
    "grub-mkconfig": _update_grub,
    "ipmitool": _ipmitool,
    "shutdown": _shutdown,
    "reboot": _shutdown,
    "dmesg": _dmesg,
    "cat": _cat,
    "lspci": _lspci,
    "printenv": _printenv,
}
