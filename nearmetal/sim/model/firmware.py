"""Firmware settings of the cards, and mstconfig / mstfwreset (mlxconfig / mlxfwreset say the same).

Sources: the mstflint tools (layout of `-e q`, `set`, answers of mstfwreset); settings belong to the card, not to the
port (openshift/sriov-network-operator#218); a warm reboot may not load them (#449 there); no query under kernel
lockdown (Mellanox/mstflint#1371).
"""

from __future__ import annotations

from typing import Any

from . import sriov
from .factory import NAME

State = dict[str, Any]
Answer = tuple[int, str, str]

LIMITS = {"NUM_OF_VFS": 127, "PF_TOTAL_SF": 65535, "MAX_ACC_OUT_READ": 128, "NUM_OF_PF": 2}
CHOICES = {
    "LAG_RESOURCE_ALLOCATION": ("DEVICE_DEFAULT", "ENABLE"),
    "PCI_WR_ORDERING": ("per_mkey", "force_relax"),
    "CQE_COMPRESSION": ("BALANCED", "AGGRESSIVE"),
    "LINK_TYPE_P1": ("", "IB", "ETH"),
    "LINK_TYPE_P2": ("", "IB", "ETH"),
    "ROCE_CONTROL": ("DEVICE_DEFAULT", "ROCE_DISABLE", "ROCE_ENABLE"),
}
DEPENDS = {"MAX_ACC_OUT_READ": "ADVANCED_PCI_SETTINGS"}
"""Settings that the tool only shows and takes where another is on (next boot)."""


def shown(value: Any) -> str:
    """As the tool prints it: True(1), ETH(2), 16."""
    return f"{value}({int(value)})" if isinstance(value, bool) else str(value)


def query(state: State, address: str) -> Answer:
    """The words of `-d ADDRESS -e q`."""
    card = _card(state, address)
    if isinstance(card, tuple):
        return card
    lines = _head(state, card, address)
    lines.append(f"{'Configurations:':<44}{'Default':>20}{'Current':>20}{'Next Boot':>20}")
    for name, value in card["firmware"].items():
        if DEPENDS.get(name) and not card["firmware"][DEPENDS[name]]["next"]:
            continue
        star = "*" if value["next"] != value["current"] else " "
        cells = "".join(f"{shown(value[key]):<20}" for key in ("default", "current", "next"))
        lines.append(f"{star}       {name:<44}{cells}".rstrip() + " ")
    if any(v["next"] != v["current"] for v in card["firmware"].values()):
        lines.append("The '*' shows parameters with next value different from default/current value.")
    return 0, "\n".join(lines) + "\n", ""


def _card(state: State, address: str) -> dict[str, Any] | Answer:
    if state["boot"].get("lockdown", "none") != "none":
        return 3, "", f"-E- Failed to open device: {address}. Operation not permitted\n"
    known = state["pfs"].get(address)
    if known is None or known["kind"] != "mlx5":
        return 3, "", f"-E- Failed to open device: {address}. No such file or directory\n"
    card: dict[str, Any] = state["cards"][known["card"]]
    return card


def _head(state: State, card: dict[str, Any], address: str) -> list[str]:
    return [
        "",
        "Device #1:",
        "----------",
        "",
        f"Device type:        {card['model'].replace('-', '')}           ",
        f"Name:               {card['part']}_Ax  ",
        f"Description:        {NAME}",
        f"Device:             {address}        ",
        "",
    ]


def set_values(state: State, address: str, words: list[str]) -> Answer:
    """The words of `-d ADDRESS -y set NAME=VALUE...`: all of them, or none."""
    card = _card(state, address)
    if isinstance(card, tuple):
        return card
    new: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or name not in card["firmware"]:
            return 3, "", f"-E- The Device doesn't support {name} parameter\n"
        try:
            new[name] = parse(name, text, card["firmware"][name]["default"])
        except ValueError as err:
            return 3, "", f"-E- {err}\n"
    for name in new:
        needed = DEPENDS.get(name)
        if needed and not new.get(needed, card["firmware"][needed]["next"]):
            return 3, "", f"-E- The Device doesn't support {name} parameter\n"
    if "fw-set-refused" in state["faults"]:
        return 3, "", "-E- Failed to set configuration: the device is in secure mode\n"
    lines = _head(state, card, address)
    lines.append(f"{'Configurations:':<44}{'Next Boot':>20}{'New':>20}")
    for name, value in new.items():
        lines.append(f"        {name:<44}{shown(card['firmware'][name]['next']):<20}{shown(value):<20}")
        card["firmware"][name]["next"] = value
    lines += [
        "",
        " Apply new Configuration? (y/n) [n] : y",
        "Applying... Done!",
        "-I- Please reboot machine to load new configurations.",
    ]
    return 0, "\n".join(lines) + "\n", ""


def parse(name: str, text: str, like: Any) -> Any:
    """A value as the user may write it. Raises ValueError with the tool's words."""
    if isinstance(like, bool):
        known = {"true": True, "1": True, "false": False, "0": False}
        if text.lower() not in known:
            raise ValueError(f"Failed to set {name}: illegal value {text}")
        return known[text.lower()]
    if isinstance(like, int):
        if not text.isdigit() or int(text) > LIMITS.get(name, 65535):
            raise ValueError(
                f"Failed to set {name}: value {text} is out of range, the maximum is {LIMITS.get(name, 65535)}"
            )
        return int(text)
    words = CHOICES.get(name, ())
    number = text.rpartition("(")[2].rstrip(")")
    if number.isdigit() and int(number) < len(words) and words[int(number)]:
        return f"{words[int(number)]}({number})"
    if text in words and text:
        return f"{text}({words.index(text)})"
    raise ValueError(f"Failed to set {name}: illegal value {text}")


def load(state: State, card: str) -> None:
    """The firmware starts: what was for the next boot is now in force."""
    for value in state["cards"][card]["firmware"].values():
        value["current"] = value["next"]


def reset(state: State, address: str) -> Answer:
    """The words of `mstfwreset -d ADDRESS -l 3 -y reset`: the drivers of all ports of the card are restarted."""
    card = _card(state, address)
    if isinstance(card, tuple):
        return card
    steps = [
        "Sending Reset Command To Fw",
        "Stopping Driver",
        "Resetting PCI",
        "Starting Driver",
        "Restarting MST",
    ]
    if not card["fwreset"]:
        return (
            1,
            "",
            "-E- Reset level '3' is not supported: the device does not support a hot reset of the PCI bus\n",
        )
    key = state["pfs"][address]["card"]
    held = [vf["address"] for port in card["ports"] for vf in state["pfs"][port]["vfs"] if vf["in_use"]]
    if held:
        return 1, "", f"-E- Failed to stop driver: VFs are in use: {', '.join(held)}\n"
    for port in card["ports"]:
        sriov.stop_pf(state, port)
        state["pfs"][port]["driver"] = ""
    load(state, key)
    state["lag"].pop(key, None)
    for port in card["ports"]:
        sriov.attach(state, "mlx5_core", port)
    text = "".join(f"-I- {step:<40}-Done\n" for step in steps) + "-I- FW was loaded successfully.\n"
    return (
        0,
        f"The reset level for device, {address} is:\n\n3: Driver restart and PCI reset\nContinue with reset?[y/N] y\n"
        + text,
        "",
    )
