# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the operations need of a host: commands that must succeed, waiting, and devices found by function or index.

Names of devices are looked up when they are needed: representors and VFs come and go while the work is under way.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Optional

from ..host import Host, HostError, Missing, Refused
from ..observe.links import REPRESENTOR
from ..observe.reader import Reader
from .shapes import split_target

DEVICES = "/sys/bus/pci/devices/"
NET = "/sys/class/net/"
DEVICE_WAIT = 30
"""Seconds for the kernel and udev to bring a device, a representor or a switch id."""

Progress = Callable[[str], None]


class Doer:
    """A host with what the operations need of it. sleep, clock: of the time module, replaced in tests."""

    def __init__(
        self, host: Host, progress: Optional[Progress] = None, sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.host, self.progress, self.sleep, self.clock = host, progress or (lambda _text: None), sleep, clock

    def run(self, *argv: Any) -> str:
        """Run a command that must succeed; its output."""
        words = [str(word) for word in argv]
        said = self.host.run(words)
        if said.rc != 0:
            text = " ".join((said.stderr or said.stdout).split())
            raise HostError(" ".join(words), text or "exit status %d" % said.rc)
        return said.stdout

    def settle(self) -> None:
        """Let udev finish naming devices; where it is not there, nothing is renamed."""
        try:
            self.host.run(["udevadm", "settle"], timeout=60)
        except (Missing, Refused):
            return

    def until(self, check: Callable[[], Any], seconds: float) -> Any:
        """The first true value of `check`, or its last one when the time is over."""
        end = self.clock() + seconds
        pause = 0.05
        while True:
            found = check()
            if found or self.clock() >= end:
                return found
            self.sleep(pause)
            pause = min(1.0, pause * 2)

    def text(self, path: str) -> str:
        """Stripped content; "" where it is missing or cannot be read."""
        return Reader(self.host).text(path, "fabric") or ""

    def device(self, pf: str) -> str:
        """The PF's own network device."""
        name = self.until(lambda: self._device(pf), DEVICE_WAIT)
        if not name:
            raise HostError(DEVICES + pf, "has no network device: is its driver loaded?")
        return str(name)

    def _device(self, pf: str) -> str:
        names = self.host.names("%s%s/net" % (DEVICES, pf))
        return next((n for n in names if not REPRESENTOR.match(self.text("%s%s/phys_port_name" % (NET, n)))), "")

    def representor(self, pf: str, index: int) -> str:
        """The device of a VF's representor."""
        name = self.until(lambda: self._representor(pf, index), DEVICE_WAIT)
        if not name:
            raise HostError(DEVICES + pf, "VF %d has no representor after %d s" % (index, DEVICE_WAIT))
        return str(name)

    def _representor(self, pf: str, index: int) -> str:
        for name in self.host.names("%s%s/net" % (DEVICES, pf)):
            found = REPRESENTOR.match(self.text("%s%s/phys_port_name" % (NET, name)))
            if found and int(found.group(2)) == index:
                return name
        return ""

    def vf(self, pf: str, index: int) -> str:
        """The address of a VF."""
        path = "%s%s/virtfn%d" % (DEVICES, pf, index)
        found = self.until(lambda: Reader(self.host).link(path).rpartition("/")[2], DEVICE_WAIT)
        if not found:
            raise HostError(path, "VF %d is not there" % index)
        return str(found)

    def driver(self, address: str) -> str:
        """The driver that has a function; "" where none has it."""
        return Reader(self.host).link(DEVICES + address + "/driver").rpartition("/")[2]

    def at(self, target: str) -> str:
        """The network device of any target."""
        head, word, index = split_target(target)
        if word == "rep":
            return self.representor(head, index)
        return self.device(head) if self.host.exists(DEVICES + head) else head
