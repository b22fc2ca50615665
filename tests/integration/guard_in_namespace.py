"""Run inside a network namespace of its own: a management path over two ports, broken on purpose, with the guard armed.

Prints one line of JSON. Not a test by itself: test_guard_namespace.py runs it. systemd's timer is a plain process here.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PEER, ADDRESS, GATEWAY = sys.argv[1], "192.0.2.1/24", "192.0.2.2"
PYTHON = [sys.executable, "-I"]


def words(text: str) -> None:
    """Run a command that must succeed."""
    subprocess.run(text.split(), check=True)


def works(text: str) -> bool:
    return subprocess.run(text.split(), check=False, capture_output=True).returncode == 0


def make(kind: str) -> None:
    """Two cables to the peer; on this side both ports are in m0, which has the address and the default route."""
    words(f"ip link add m0 type {kind}" + (" mode active-backup miimon 100" if kind == "bond" else ""))
    for port in ("p0", "p1"):
        words(f"ip link add {port} type veth peer name {port} netns {PEER}")
        words(f"ip link set {port} master m0")
        words(f"ip link set {port} up")
    words("ip link set m0 up")
    words(f"ip addr add {ADDRESS} dev m0")
    words(f"ip route add default via {GATEWAY}")
    words(f"ip -n {PEER} link set p0 up")
    words(f"ip -n {PEER} addr add {GATEWAY}/24 dev p0")


def reached() -> bool:
    """Whether the peer gets through: a port on which nobody listens refuses, and that is an answer."""
    code = (
        "import socket,sys\ntry: socket.create_connection(('192.0.2.1', 9), timeout=2)\n"
        "except ConnectionRefusedError: sys.exit(0)\nexcept OSError: sys.exit(1)"
    )
    return subprocess.run(["ip", "netns", "exec", PEER, *PYTHON, "-c", code], check=False).returncode == 0


def guarded_host() -> Any:
    """This machine, but for systemd."""
    from ansible_collections.nearmetal.rack.plugins.module_utils.host import FileHost, Result

    class Here(FileHost):
        timers: list[subprocess.Popen[bytes]] = []

        def run(self, argv: Sequence[str], timeout: float = 300, stdin: str = "") -> Result:
            if argv[0] == "systemd-run":
                seconds = next(w.partition("=")[2] for w in argv if w.startswith("--on-active="))
                program = [sys.executable if w == "/usr/bin/python3" else w for w in argv[4:]]
                self.timers.append(subprocess.Popen(["sh", "-c", 'sleep "$0"; exec "$@"', seconds, *program]))
                return Result(0, "", "")
            if argv[0] == "systemctl":
                return Result(3, "inactive\n", "")
            return super().run(argv, timeout, stdin)

    return Here("/")


def break_it() -> None:
    """What a wrong change does: ports out, address away, device down."""
    words(f"ip addr del {ADDRESS} dev m0")
    words("ip link set p0 nomaster")
    words("ip link set p1 down")
    words("ip link set m0 down")


def main() -> None:
    from ansible_collections.nearmetal.rack.plugins.module_utils.fabric_boot import guard, guardnote, program
    from ansible_collections.nearmetal.rack.plugins.module_utils.fabric_boot.look import look

    program.PATH = str(Path(sys.argv[2]) / "fabric.pyz")
    kind = "bond" if works("ip link add probe type bond") else "bridge"
    make(kind)
    host = guarded_host()
    guard.LEAST_S = 1
    result: dict[str, Any] = {"kind": kind, "before": reached()}
    guard.arm(host, look(host), 3)
    break_it()
    result["broken"] = not reached()
    host.timers[-1].wait(30)
    result["restored"] = reached()
    result["route"] = f"default via {GATEWAY}" in subprocess.run(["ip", "route"], capture_output=True, text=True, check=True).stdout
    result["noted"] = json.loads(Path(guardnote.RESTORED).read_text())["why"]
    armed = guard.arm(host, look(host), 3)
    words("ip link set m0 mtu 1400")
    said = subprocess.run([sys.executable, program.PATH, "confirm", armed["token"]], capture_output=True, text=True, check=False)
    host.timers[-1].wait(30)
    time.sleep(0.2)
    result["confirmed"] = said.returncode == 0 and "mtu 1400" in subprocess.run(
        ["ip", "link", "show", "m0"], capture_output=True, text=True, check=True).stdout  # fmt: skip
    print(json.dumps(result))


if __name__ == "__main__":
    main()
