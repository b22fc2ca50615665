"""TCP ports on the loopback address for the nodes' ssh."""

from __future__ import annotations

import socket
from collections.abc import Container

from ..errors import USAGE, NearmetalError

#: Below the kernel's range for outgoing connections, so that none of those takes a port that is remembered.
FIRST, LAST = 22100, 23099


def is_free(port: int) -> bool:
    """Whether the port can be listened on now."""
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def choose(taken: Container[int]) -> int:
    """The first free port of the range that is not in `taken`."""
    for port in range(FIRST, LAST + 1):
        if port not in taken and is_free(port):
            return port
    raise NearmetalError(f"No free port for a node's ssh between {FIRST} and {LAST} on 127.0.0.1.")


def asked(first: int, count: int) -> list[int]:
    """`count` ports from `first` on, as asked for. Raises NearmetalError if one cannot be had."""
    if not 1024 <= first <= 65536 - count:
        raise NearmetalError(f"--ssh-port {first} is out of range: 1024 to {65536 - count}", USAGE)
    wanted = list(range(first, first + count))
    if busy := [port for port in wanted if not is_free(port)]:
        raise NearmetalError(
            f"Port {busy[0]} on 127.0.0.1 is taken by another program (see: ss -ltnp sport = :{busy[0]}). "
            "Choose another with --ssh-port, or leave the choice to nearmetal."
        )
    return wanted
