"""The switch's side of LACP: enough of IEEE 802.1AX for a host's 802.3ad bond to form, and to notice a port that died.

The switch answers each LACPDU with its own and takes a port for bundled as long as they come. It never starts a
conversation: a bond that does not speak LACP stays alone, as on a real switch with passive ports.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

SLOW_PROTOCOLS = bytes.fromhex("0180c2000002")
HEAD = bytes.fromhex("8809" "01" "01")
"""EtherType, subtype LACP, version."""
ACTIVITY, SHORT, AGGREGATION, SYNC, COLLECTING, DISTRIBUTING = 1, 2, 4, 8, 16, 32
SLOW_S, FAST_S = 90.0, 3.0
"""A port is lost after three intervals of 30 s, or of 1 s where the host asked for the short timeout."""
SYSTEM = bytes.fromhex("525400ffff01")
_ACTOR = slice(18, 36)
"""Within the frame, after type and length: system priority, system, key, port priority, port, state, reserved."""
SIZE = 124


def actor_of(frame: bytes) -> bytes | None:
    """The sender's own part of an LACPDU; None where the frame is none."""
    if len(frame) < SIZE or frame[:6] != SLOW_PROTOCOLS or frame[12:16] != HEAD or frame[16:18] != b"\x01\x14":
        return None
    return frame[_ACTOR]


def answer(actor: bytes, key: int, port: int) -> bytes:
    """The switch's LACPDU for a host's actor information: same key means that ports may be bundled."""
    state = ACTIVITY | AGGREGATION | SYNC | COLLECTING | DISTRIBUTING | (actor[14] & SHORT)
    own = b"\x80\x00" + SYSTEM + key.to_bytes(2, "big") + b"\x80\x00" + port.to_bytes(2, "big") + bytes([state, 0, 0, 0])
    body = HEAD + b"\x01\x14" + own + b"\x02\x14" + actor + b"\x03\x10" + bytes(14)
    frame = SLOW_PROTOCOLS + SYSTEM[:5] + bytes([port & 0xFF]) + body
    return frame.ljust(SIZE, b"\0")


@dataclass
class Bundles:
    """Which ports belong together now. groups: port -> the group whose ports may be bundled (the cards of one node)."""

    groups: dict[int, int]
    clock: Callable[[], float]
    _until: dict[int, float] = field(default_factory=dict)
    _heard: dict[int, int] = field(default_factory=dict)

    def heard(self, port: int) -> None:
        """Any frame came in here: what goes to its bundle takes this port from now on."""
        if port in self.groups:
            self._heard[self.groups[port]] = port

    def take(self, frame: bytes, port: int) -> bytes | None:
        """Handle an LACPDU; returns what the switch says to it, None where the frame is none or the port is in no group."""
        actor = actor_of(frame)
        if actor is None or port not in self.groups:
            return None
        self._until[port] = self.clock() + (FAST_S if actor[14] & SHORT else SLOW_S)
        return answer(actor, self.groups[port] + 1, port + 1)

    def bundled(self, port: int) -> bool:
        """Whether the host speaks LACP on this port."""
        return self._until.get(port, 0.0) > self.clock()

    def one_of_each(self, ports: Sequence[int], source: int) -> list[int]:
        """Ports to flood to: one of each bundle, none of the sender's own."""
        chosen: dict[object, int] = {}
        own = self.groups.get(source, -1) if self.bundled(source) else -1
        for port in ports:
            group = self.groups.get(port, -1)
            if not self.bundled(port):
                chosen[("port", port)] = port
            elif group != own and (("group", group) not in chosen or self._heard.get(group) == port):
                chosen[("group", group)] = port
        return sorted(port for port in chosen.values() if port != source)

    def forget(self, port: int) -> None:
        """A port went away."""
        self._until.pop(port, None)
