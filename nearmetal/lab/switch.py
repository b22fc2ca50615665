"""The rack's switch: a process of its own that learns addresses and forwards Ethernet frames.

Each card of a node is a QEMU `stream` network backend that connects to a Unix socket here. A process needs
no root, no bridge and no namespace, works the same everywhere, leaves nothing behind when it ends, and racks
cannot see each other. Links can be cut with QEMU's `set_link`; the switch learns the new place of an address
from the next frame, as when a bond fails over. Frames that 802.1D keeps on their link (LLDP, STP) are not
passed on; LACP is answered (lacp.py), so that the cards of one node can be bundled. Every port carries every
VLAN, learned for each VLAN apart.

Run as `python -m nearmetal.lab.switch SOCKET...`, one path a port; paths that agree up to their last dash
(NODE-CARD) are the cards of one node.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from nearmetal.lab.lacp import Bundles

AGE_S = 300.0
HEADER = 4
MAX_FRAME = 256 * 1024
#: Bytes that wait for a slow port before its frames are dropped.
QUEUE = 4 * 2**20
READ = 256 * 1024
LINK_LOCAL = bytes.fromhex("0180c20000")
VLAN_TAG = b"\x81\x00"


def addresses(frame: bytes) -> tuple[bytes, bytes]:
    """Keys of the receiver and the sender: VLAN id and MAC address, 8 bytes each."""
    vlan = bytes([frame[14] & 0x0F, frame[15]]) if frame[12:14] == VLAN_TAG and len(frame) > 15 else b"\0\0"
    return vlan + frame[0:6], vlan + frame[6:12]


class Table:
    """Which port an address was last seen on."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[bytes, tuple[int, float]] = {}

    def ports_for(self, frame: bytes, source: int, ports: Sequence[int]) -> list[int]:
        """Learn the sender, and say which ports the frame goes out of."""
        if len(frame) < 14:
            return []
        to, sender = addresses(frame)
        now = self._clock()
        if not frame[6] & 1:
            self._seen[sender] = (source, now)
        if frame[:5] == LINK_LOCAL and frame[5] <= 0x0F:
            return []
        if not frame[0] & 1:
            port, seen = self._seen.get(to, (-1, 0.0))
            if port >= 0 and now - seen < AGE_S:
                return [port] if port != source else []
        return [port for port in ports if port != source]

    def forget(self, port: int) -> None:
        """A port went away: its addresses are unknown again."""
        self._seen = {key: value for key, value in self._seen.items() if value[0] != port}


def split_frames(buffer: bytearray) -> list[bytes]:
    """Take whole frames off the front of a stream: 4 bytes of length, then the frame.

    Raises ValueError if the stream cannot be one of frames.
    """
    frames, at = [], 0
    while len(buffer) - at >= HEADER:
        size = int.from_bytes(buffer[at : at + HEADER], "big")
        if size > MAX_FRAME:
            raise ValueError(f"frame of {size} bytes")
        if len(buffer) - at - HEADER < size:
            break
        frames.append(bytes(buffer[at + HEADER : at + HEADER + size]))
        at += HEADER + size
    del buffer[:at]
    return frames


class Port:
    """One connected card."""

    def __init__(self, number: int, sock: socket.socket) -> None:
        self.number = number
        self.sock = sock
        self.inbox = bytearray()
        self.outbox = bytearray()

    def queue(self, frame: bytes) -> None:
        """Take a frame to send, or drop it if too many wait."""
        if len(self.outbox) < QUEUE:
            self.outbox += len(frame).to_bytes(HEADER, "big") + frame

    def flush(self) -> None:
        """Send what the card takes now. Raises OSError if it is gone."""
        with contextlib.suppress(BlockingIOError):
            sent = self.sock.send(self.outbox)
            del self.outbox[:sent]


class Switch:
    """Event loop over all ports."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._selector = selectors.DefaultSelector()
        self._ports: dict[int, Port] = {}
        self._table = Table()
        nodes = [path.name.rpartition("-")[0] or path.name for path in paths]
        self._bundles = Bundles({n: nodes.index(node) for n, node in enumerate(nodes)}, time.monotonic)
        for number, path in enumerate(paths):
            path.unlink(missing_ok=True)
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(path))
            listener.listen()
            listener.setblocking(False)
            self._selector.register(listener, selectors.EVENT_READ, (number, listener))

    def serve_once(self, timeout: float | None = None) -> None:
        """Handle what there is to do now, waiting up to `timeout` seconds (None: until something happens)."""
        for key, events in self._selector.select(timeout):
            if isinstance(key.data, Port):
                self._serve(key.data, events)
            else:
                self._accept(*key.data)

    def _accept(self, number: int, listener: socket.socket) -> None:
        sock, _ = listener.accept()
        sock.setblocking(False)
        if former := self._ports.get(number):
            self._close(former)
        port = Port(number, sock)
        self._ports[number] = port
        self._selector.register(sock, selectors.EVENT_READ, port)

    def _serve(self, port: Port, events: int) -> None:
        if self._ports.get(port.number) is not port:
            return
        try:
            if events & selectors.EVENT_READ:
                self._receive(port)
            if events & selectors.EVENT_WRITE:
                self._send(port)
        except (OSError, ValueError):
            self._close(port)

    def _receive(self, port: Port) -> None:
        data = port.sock.recv(READ)
        if not data:
            raise ConnectionResetError
        port.inbox += data
        touched: set[int] = set()
        for frame in split_frames(port.inbox):
            self._bundles.heard(port.number)
            if reply := self._bundles.take(frame, port.number):
                port.queue(reply)
                touched.add(port.number)
                continue
            ports = self._bundles.one_of_each(list(self._ports), port.number)
            for number in self._table.ports_for(frame, port.number, ports):
                if number in self._ports:
                    self._ports[number].queue(frame)
                    touched.add(number)
        for number in touched:
            self._send(self._ports[number])

    def _send(self, port: Port) -> None:
        try:
            port.flush()
        except OSError:
            self._close(port)
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if port.outbox else 0)
        self._selector.modify(port.sock, events, port)

    def _close(self, port: Port) -> None:
        self._selector.unregister(port.sock)
        port.sock.close()
        self._table.forget(port.number)
        self._bundles.forget(port.number)
        if self._ports.get(port.number) is port:
            del self._ports[port.number]


def main() -> None:
    """Serve for ever; ended by a signal."""
    switch = Switch([Path(path) for path in sys.argv[1:]])
    while True:
        switch.serve_once()


if __name__ == "__main__":
    main()
