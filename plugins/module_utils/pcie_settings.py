# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI Express registers that are written: what differs, how it is set now, and how at every boot.

Both by setpci, with the same words, so that what is kept for the boot is what was seen to work. Kept by a udev rule and
not by a unit: a function that is removed and found again (reset of a card, hot plug) has lost its registers, and only
udev is told of it. Bits that nobody asked for are masked out of every write.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

from . import acs
from .host import Host, HostError, Missing
from .model import Step
from .state import Pcie

RULES = "/etc/udev/rules.d/90-nearmetal-pcie.rules"
FILES = (RULES,)
READ_REQUESTS = (128, 256, 512, 1024, 2048, 4096)

_HEAD = "# Written by nearmetal (pcie_settings); changes are lost.\n"
_RULE = (
    'ACTION=="add", SUBSYSTEM=="pci", KERNEL=="%s", '
    "RUN+=\"/bin/sh -c 'PATH=/usr/sbin:/usr/bin:/sbin:/bin exec %s'\"\n"
)

Setting = Mapping[str, Any]
"""acs: mask or None, max_read_request: bytes or None, relaxed_ordering: truth value or None."""
Settings = Mapping[str, Setting]
"""By the address of the function."""


def words(setting: Setting) -> List[str]:
    """The assignments of setpci: REGISTER=VALUE:BITS, hexadecimal."""
    value, mask = 0, 0
    if setting.get("max_read_request") is not None:
        value |= READ_REQUESTS.index(setting["max_read_request"]) << 12
        mask |= 0x7000
    if setting.get("relaxed_ordering") is not None:
        value |= 0x10 if setting["relaxed_ordering"] else 0
        mask |= 0x10
    found = ["CAP_EXP+8.w=%04x:%04x" % (value, mask)] if mask else []
    if setting.get("acs"):
        found.append("ECAP_ACS+6.w=%04x:%04x" % acs.register(setting["acs"]))
    return found


def argv(address: str, setting: Setting) -> List[str]:
    """The command that sets one function."""
    return ["setpci", "-s", address, *words(setting)]


def rules(wanted: Settings) -> Optional[str]:
    """Content of the udev rules; None where there is nothing to keep."""
    lines = [_RULE % (address, " ".join(argv(address, one))) for address, one in sorted(wanted.items()) if words(one)]
    return _HEAD + "".join(lines) if lines else None


def differing(setting: Setting, have: Pcie) -> Tuple[List[str], List[str]]:
    """(what is found, what is wanted) of the registers that are not as wanted."""
    found, asked = [], []
    size, ordering, mask = setting.get("max_read_request"), setting.get("relaxed_ordering"), setting.get("acs")
    if size is not None and have["max_read_request"] != size:
        found.append("MaxReadReq %d" % have["max_read_request"])
        asked.append("MaxReadReq %d" % size)
    if ordering is not None and have["relaxed_ordering"] != ordering:
        found.append("relaxed ordering %s" % ("on" if have["relaxed_ordering"] else "off"))
        asked.append("relaxed ordering %s" % ("on" if ordering else "off"))
    if mask:
        there: Any = have["acs"]
        if there is None or not acs.met(mask, there["enabled"], there["able"]):
            found.append("ACS %s" % (there["enabled"] if there else "not there"))
            asked.append("ACS %s" % mask)
    return found, asked


def file_changes(wanted: Settings, persist: bool, files: Mapping[str, str]) -> Dict[str, Optional[str]]:
    """{path: new content, None to remove it} of our file where it is not as it should be."""
    text = rules(wanted) if persist else None
    return {RULES: text} if files.get(RULES) != text else {}


def steps(
    wanted: Settings, persist: bool, pcie: Mapping[str, Pcie], files: Mapping[str, str], live: bool
) -> List[Step]:
    """What differs. Raises HostError for a function whose registers are not known."""
    found = []
    for address, setting in sorted(wanted.items()) if live else ():
        if address not in pcie:
            raise HostError(address, "its PCI Express registers could not be read")
        have, asked = differing(setting, pcie[address])
        if asked:
            found.append(
                Step(
                    "iommu", "pcie-" + address, ", ".join(have), ", ".join(asked), "set by setpci, without a reboot",
                    "none", "configuration space of %s, read back" % address,
                )
            )  # fmt: skip
    for _path, text in file_changes(wanted, persist, files).items():
        count = len([one for one in wanted.values() if words(one)])
        after = "kept for %d function%s" % (count, "" if count == 1 else "s") if text else "not kept"
        found.append(
            Step(
                "iommu", "pcie-boot", "kept otherwise" if RULES in files else "not kept", after,
                "registers are lost at every boot and at every reset of a card", "none", "content of " + RULES,
            )
        )  # fmt: skip
    return found


def apply(host: Host, wanted: Settings, persist: bool, pcie: Mapping[str, Pcie], files: Mapping[str, str]) -> None:
    """Set what differs, and keep it. Raises HostError with setpci's own word."""
    for address, setting in sorted(wanted.items()) if host.live else ():
        if differing(setting, pcie[address])[1]:
            _set(host, argv(address, setting))
    for path, text in file_changes(wanted, persist, files).items():
        if text is None:
            host.remove(path)
        else:
            host.write(path, text)


def _set(host: Host, command: List[str]) -> None:
    try:
        said = host.run(command, timeout=30)
    except Missing:
        raise HostError("setpci", "is not on the host: install pciutils") from None
    text = (said.stderr or said.stdout).strip()
    # setpci ends well although the kernel refused a write; only its warning tells
    if said.rc or "permi" in text.lower():
        raise HostError(" ".join(command), text or "exit status %d" % said.rc)
