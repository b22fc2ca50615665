# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Power, and what the next boot starts from."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from .client import Bmc
from .errors import BmcError
from .reading import describe, empty, find_system

PAUSE = 2.0
RESET = "#ComputerSystem.Reset"
WORDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "on": (("On",), ("On", "ForceOn")),
    "off": (("GracefulShutdown",), ("ForceOff",)),
    "restart": (("GracefulRestart",), ("ForceRestart", "PowerCycle")),
    "cycle": (("PowerCycle", "FullPowerCycle"), ("PowerCycle", "FullPowerCycle")),
}
"""State to the reset types that ask the operating system, and those that do not; the first that is offered."""
Clock = Callable[[], float]
Sleep = Callable[[float], None]


class Power:
    """The power of a BMC's computer system."""

    def __init__(self, bmc: Bmc, clock: Clock = time.monotonic, sleep: Sleep = time.sleep) -> None:
        self._bmc, self._clock, self._sleep = bmc, clock, sleep
        self._system = find_system(bmc)
        self.document = describe(empty(bmc.uri), self._system)
        action = (self._system.get("Actions") or {}).get(RESET) or {}
        self._target = str(action.get("target") or "")
        if not self.document["reset_types"] and action.get("@Redfish.ActionInfo"):
            self.document["reset_types"] = self._listed(str(action["@Redfish.ActionInfo"]))

    def _listed(self, path: str) -> list[str]:
        parameters = self._bmc.get(path).get("Parameters") or ()
        return [str(v) for p in parameters if p.get("Name") == "ResetType" for v in p.get("AllowableValues") or ()]

    @property
    def state(self) -> str:
        """On, Off, PoweringOn, PoweringOff, as last read."""
        return str(self.document["power_state"])

    def read(self) -> str:
        """The state now."""
        self._system = self._bmc.get(self.document["system"])
        describe(self.document, {**self._system, "@odata.id": self.document["system"]})
        return self.state

    def set(self, wanted: str, graceful: bool = False, seconds: float = 300.0) -> bool:
        """Bring it to on or off, or restart or cycle it; whether anything was asked for. Raises BmcError."""
        if wanted == self.state.lower():
            return False
        if wanted in ("restart", "cycle") and self.state == "Off":
            wanted = "on"
        if wanted == "cycle" and not self._offered(WORDS["cycle"][0]):
            self.set("off", graceful, seconds)
            wanted = "on"
        asked, forced = WORDS[wanted]
        gentle = self._offered(asked) if graceful else ""
        self._reset(gentle or self._offered(forced) or forced[0])
        if wanted in ("on", "off"):
            if not self._becomes(wanted, seconds) and gentle and wanted == "off":
                self._reset("ForceOff")
            if not self._becomes(wanted, min(seconds, 60.0)):
                raise BmcError("refused", f"{self._bmc.uri}: power is still {self.state} after {seconds:.0f} s, not {wanted}")
        return True

    def _offered(self, types: tuple[str, ...]) -> str:
        return next((t for t in types if t in self.document["reset_types"]), "")

    def _reset(self, kind: str) -> None:
        if not self._target:
            raise BmcError("refused", f"{self._bmc.uri} offers no reset of {self.document['system']}")
        if self.document["reset_types"] and kind not in self.document["reset_types"]:
            offered = ", ".join(self.document["reset_types"])
            raise BmcError("refused", f"{self._bmc.uri} does not offer the reset {kind}, only {offered}")
        self._bmc.fetch("POST", self._target, {"ResetType": kind})

    def _becomes(self, wanted: str, seconds: float) -> bool:
        start = self._clock()
        while self.read().lower() != wanted:
            if self._clock() - start >= seconds:
                return False
            self._sleep(PAUSE)
        return True

    def boot_once(self, source: str) -> bool:
        """Start the next boot from a source; whether anything was asked for. Raises BmcError."""
        boot: Mapping[str, Any] = self.document["boot"]
        if (boot["override"], boot["enabled"]) == (source, "Once"):
            return False
        if boot["allowed"] and source not in boot["allowed"]:
            raise BmcError("options", f"boot_once={source}: {self._bmc.uri} offers {', '.join(boot['allowed'])}")
        body = {"Boot": {"BootSourceOverrideTarget": source, "BootSourceOverrideEnabled": "Once"}}
        self._bmc.patch(self.document["system"], body, str(self._system.get("@odata.etag") or ""))
        self.read()
        return True
