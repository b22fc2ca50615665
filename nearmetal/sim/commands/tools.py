"""Smaller tools: ethtool, setpci, modprobe, udevadm, update-grub, ipmitool, dmesg, shutdown, cat."""

from __future__ import annotations

import re
from typing import Any

from ..model import boot, grub, osfiles, pciconfig, sysfs
from ..model.hardware import Part, by_address
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


REGISTER = re.compile(
    r"(?:(CAP_EXP|ECAP_ACS|ECAP_ATS)\+)?(0x)?([0-9a-fA-F]+)\.([bwl])(?:=([0-9a-fA-F]+)(?::([0-9a-fA-F]+))?)?"
)
BASES = {"CAP_EXP": pciconfig.PCIE, "ECAP_ACS": pciconfig.ACS, "ECAP_ATS": pciconfig.ATS, "": 0, None: 0}
WRITABLE = {pciconfig.ACS + 6: "acs", pciconfig.ATS + 6: "ats", pciconfig.PCIE + 8: "devctl"}


def _setpci(machine: Machine, argv: list[str]) -> Answer:
    """Answer setpci -s ADDRESS REGISTER[=VALUE[:MASK]]...

    Under lockdown the kernel refuses writes (pci_write_config); setpci only warns, and ends well.
    """
    state = machine.state
    words = [word for word in argv[1:] if word != "-v"]
    if words[:1] != ["-s"] or len(words) < 3 or not all(REGISTER.fullmatch(word) for word in words[2:]):
        return not_simulated(argv)
    address = words[1] if words[1].count(":") == 2 else "0000:" + words[1]
    part = by_address(state["variant"]["gpu"]).get(address)
    if part is None:
        return 1, "", f'setpci: Warning: No devices selected for "{words[2]}".\n'
    answers = [_register(state, part, word) for word in words[2:]]
    if None in answers:
        return not_simulated(argv)
    done = [answer for answer in answers if answer is not None]
    return (
        max(code for code, _out, _err in done),
        "".join(out for _code, out, _err in done),
        "".join(err for *_rest, err in done),
    )


def _register(state: State, part: Part, word: str) -> Answer | None:
    """Read or write one register; None for one that cannot be written here."""
    match = REGISTER.fullmatch(word)
    assert match is not None
    size = {"b": 1, "w": 2, "l": 4}[match[4]]
    at = BASES[match[1]] + int(match[3], 16)
    data = sysfs.registers_of(state, part)
    lacks_acs = match[1] == "ECAP_ACS" and not pciconfig.has_acs(part)
    if lacks_acs or match[1] == "ECAP_ATS" and data[pciconfig.ATS] != 0x0F:
        return (
            1,
            "",
            f"setpci: {part.address}: Instance #0 of {match[1]} not found - there are no capabilities with that id.\n",
        )
    value = int.from_bytes(data[at : at + size], "little")
    if match[5] is None:
        return 0, f"{value:0{size * 2}x}\n", ""
    if state["boot"].get("lockdown", "none") != "none":
        return 0, "", "setpci: pcilib: sysfs_write: write failed: Operation not permitted\n"
    mask = int(match[6], 16) if match[6] else (1 << size * 8) - 1
    if at not in WRITABLE or size != 2:
        return None
    new = (value & ~mask | int(match[5], 16) & mask) & 0xFFFF
    able = pciconfig.ACS_CAPABILITY if WRITABLE[at] == "acs" else 0xFFFF
    state["registers"][part.address][WRITABLE[at]] = new & able
    return 0, "", ""


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
