# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Functions that are handed to guests: their driver now and at every boot, and drivers that are kept off.

At boot a udev rule names the driver (driver_override) when the function is found, before any driver is loaded for it;
a driver that an initramfs would bring earlier is kept off by modprobe.d, which goes into the initramfs. Sources:
Documentation/ABI/testing/sysfs-bus-pci (driver_override, drivers_probe), Documentation/driver-api/vfio.rst (a group is
whole), modprobe.d(5), udev(7).
"""

from __future__ import annotations

import contextlib
import re
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .host import Host, HostError, Missing, Unreadable

RULES = "/etc/udev/rules.d/10-nearmetal-passthrough.rules"
MODPROBE = "/etc/modprobe.d/nearmetal-passthrough.conf"
FILES = (RULES, MODPROBE)

VFIO = "vfio-pci"
DRIVERS = (VFIO, "nvgrace-gpu-vfio-pci")
KEEP_OFF = {
    "nouveau": ("nouveau",), "nvidiafb": ("nvidiafb",),
    "nvidia": ("nvidia", "nvidia_drm", "nvidia_modeset", "nvidia_uvm"), "amdgpu": ("amdgpu",), "radeon": ("radeon",),
}  # fmt: skip
"""What can be kept off, with the modules that belong to it."""

DEVICES = "/sys/bus/pci/devices"
_HEAD = "# Written by nearmetal (role gpu_passthrough); changes are lost.\n"
_PROBE = "/bin/sh -c 'test -e %s/%%k/driver || echo %%k > /sys/bus/pci/drivers_probe'" % DEVICES
_REFRESH = (
    ("/usr/sbin/update-initramfs", ["/usr/sbin/update-initramfs", "-u", "-k", "all"]),
    ("/usr/bin/dracut", ["/usr/bin/dracut", "--force", "--regenerate-all"]),
)
REFRESH_TIMEOUT = 900


class Binding(NamedTuple):
    """What is handed over. ids: "10de:2330", for functions that are not there yet."""

    drivers: Mapping[str, str]  # address to driver
    ids: Mapping[str, str] = {}
    keep_off: Sequence[str] = ()


def files(wanted: Binding) -> Dict[str, Optional[str]]:
    """Our files as they shall be; None: not there."""
    rules = [_rule('KERNEL=="%s"' % address, driver) for address, driver in sorted(wanted.drivers.items())]
    for one, driver in sorted(wanted.ids.items()):
        vendor, _colon, device = one.partition(":")
        rules.append(_rule('ATTR{vendor}=="0x%s", ATTR{device}=="0x%s"' % (vendor, device), driver))
    off = [name for driver in wanted.keep_off for name in KEEP_OFF[driver]]
    lines = ["blacklist %s\ninstall %s /bin/false\n" % (name, name) for name in off]
    return {
        RULES: _HEAD + "".join(rules) if rules else None,
        MODPROBE: _HEAD + "".join(lines) if lines else None,
    }


def _rule(match: str, driver: str) -> str:
    return 'ACTION=="add", SUBSYSTEM=="pci", %s, ATTR{driver_override}="%s", RUN{builtin}+="kmod load %s", RUN+="%s"\n' % (
        match, driver, driver, _PROBE)  # fmt: skip


def file_changes(wanted: Binding, have: Mapping[str, str]) -> Dict[str, Optional[str]]:
    """{path: new content, None to remove it} of our files that are not as they shall be."""
    return {path: text for path, text in files(wanted).items() if have.get(path) != text}


def users(modules: str, driver: str) -> int:
    """How often a driver is in use beyond the modules that need it, from /proc/modules; 0 where that is not known."""
    name = {"xhci_hcd": "xhci_pci", "nvidia-gpu": "i2c_nvidia_gpu"}.get(driver, driver).replace("-", "_")
    for line in modules.splitlines():
        words = line.split()
        if len(words) > 3 and words[0] == name and words[2].isdecimal():
            return max(0, int(words[2]) - len([w for w in words[3].split(",") if w not in ("", "-")]))
    return 0


def driver_of(host: Host, address: str) -> str:
    """The driver that has the function, "" for none."""
    try:
        return host.readlink("%s/%s/driver" % (DEVICES, address)).rpartition("/")[2]
    except Missing:
        return ""


def holders(host: Host, address: str) -> List[str]:
    """Processes that have the function open, as "name (pid)"."""
    nodes = _nodes(host, address)
    found: Dict[str, None] = {}
    for pid in _names(host, "/proc") if nodes else ():
        if pid.isdecimal() and any(_open(host, "/proc/%s/fd/%s" % (pid, fd), nodes) for fd in _names(host, "/proc/%s/fd" % pid)):
            found["%s (%s)" % (host.get("/proc/%s/comm" % pid, "?"), pid)] = None
    return list(found)


def _nodes(host: Host, address: str) -> List["re.Pattern[str]"]:
    """What a process opens to use the function."""
    base = "%s/%s" % (DEVICES, address)
    found = ["/dev/dri/" + name for name in _names(host, base + "/drm")]
    found += [r"/dev/snd/\w*C%s(D\d+\w)?" % n[4:] for n in _names(host, base + "/sound") if n.startswith("card")]
    text = host.get("/proc/driver/nvidia/gpus/%s/information" % address)
    minor = re.search(r"Device Minor:\s*(\d+)", text)
    if minor:
        found.append("/dev/nvidia" + minor.group(1))
    with contextlib.suppress(Missing):
        found.append("/dev/vfio/" + host.readlink(base + "/iommu_group").rpartition("/")[2])
    found += ["/dev/vfio/devices/" + name for name in _names(host, base + "/vfio-dev")]
    return [re.compile(pattern + r"\Z") for pattern in found]


def _names(host: Host, path: str) -> List[str]:
    try:
        return host.names(path)
    except Unreadable:
        return []  # a process that has just ended


def _open(host: Host, path: str, nodes: Sequence["re.Pattern[str]"]) -> bool:
    try:
        target = host.readlink(path)
    except HostError:
        return False
    return any(node.match(target) for node in nodes)


def write_files(host: Host, wanted: Binding, have: Mapping[str, str]) -> Dict[str, Optional[str]]:
    """Write what differs; the initramfs too where it holds a copy. All or nothing. Raises HostError."""
    todo = file_changes(wanted, have)
    try:
        for path, text in todo.items():
            _put(host, path, text)
        if MODPROBE in todo and host.live:
            _refresh(host)
        if RULES in todo and host.live:
            _run(host, ["udevadm", "control", "--reload"])
    except HostError:
        # Left as they were, so that the next run finds the same work to do.
        for path in todo:
            _put(host, path, have.get(path))
        raise
    return todo


def _put(host: Host, path: str, text: Optional[str]) -> None:
    if text is None:
        host.remove(path)
    else:
        host.write(path, text)


def _refresh(host: Host) -> None:
    for program, command in _REFRESH:
        if host.exists(program):
            _run(host, command)
            return


def _run(host: Host, command: List[str]) -> None:
    try:
        said = host.run(command, timeout=REFRESH_TIMEOUT)
    except Missing:
        return  # no udev: the rules are read at the next boot
    if said.rc:
        raise HostError(" ".join(command), (said.stderr or said.stdout).strip()[-400:] or "exit status %d" % said.rc)


def bind(host: Host, address: str, driver: str) -> Tuple[str, str]:
    """Give a function to another driver, now: (driver before, driver after). Raises HostError; nothing is torn away."""
    before = driver_of(host, address)
    if before == driver:
        return before, before
    users_now = holders(host, address)
    if users_now:
        raise HostError(address, "is in use by %s: stop that first" % ", ".join(users_now))
    said = host.run(["modprobe", driver])
    if said.rc:
        raise HostError("modprobe " + driver, said.stderr.strip() or "exit status %d" % said.rc)
    host.poke("%s/%s/driver_override" % (DEVICES, address), driver)
    try:
        if before:
            host.poke("/sys/bus/pci/drivers/%s/unbind" % before, address)
        host.poke("/sys/bus/pci/drivers_probe", address)
        after = driver_of(host, address)
        if after != driver:
            raise HostError(address, "%s did not take it (driver now: %s); dmesg says why" % (driver, after or "none"))
    except HostError:
        _give_back(host, address)
        raise
    return before, driver


def _give_back(host: Host, address: str) -> None:
    """Let the kernel choose again, as before."""
    for path, text in (("%s/%s/driver_override" % (DEVICES, address), "\n"), ("/sys/bus/pci/drivers_probe", address)):
        with contextlib.suppress(HostError):  # the first failure is what counts
            host.poke(path, text)
