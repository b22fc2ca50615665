"""Routes of a simulated host: those of its addresses, and default routes.

Sources: ip-route(8); the kernel drops the routes of a device that goes down (net/ipv4/fib_frontend.c, fib_disable_ip).
networkd and NetworkManager set their routes again when a link is back, ifupdown does not.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from .errors import Refusal, absent

State = dict[str, Any]


def lines(state: State, family: str) -> list[str]:
    """As `ip -4 route show` prints them; there are none of IPv6."""
    if family != "-4":
        return []
    found = [
        f"{route['to']} via {route['via']} dev {route['dev']} proto static"
        if route["via"]
        else f"{route['to']} dev {route['dev']}"
        for route in state.get("routes", [])
    ]
    for name, device in state["netdevs"].items():
        for cidr in device["addresses"] if device["up"] and device["kind"] != "lo" else ():
            address = ipaddress.ip_interface(cidr)
            if address.version == 4:
                found.append(f"{address.network} dev {name} proto kernel scope link src {address.ip}")
    return found


def replace(state: State, words: list[str]) -> None:
    """Carry out ip route replace|add TO [via GATEWAY] dev NAME [proto ...]: ENODEV and ENETUNREACH as the kernel gives them."""
    given = dict(zip(words[1::2], words[2::2], strict=False))
    name = given.get("dev", "")
    if name not in state["netdevs"]:
        raise absent(f'Cannot find device "{name}"')
    if not state["netdevs"][name]["up"]:
        raise Refusal(100)
    via = given.get("via", "")
    if via and not any(
        ipaddress.ip_address(via) in ipaddress.ip_interface(cidr).network
        for cidr in state["netdevs"][name]["addresses"]
    ):
        raise Refusal(101, "Error: Nexthop has invalid gateway.")
    state["routes"] = [route for route in state.get("routes", []) if route["to"] != words[0]]
    state["routes"].append({"to": words[0], "via": via, "dev": name})


def drop(state: State, name: str) -> None:
    """A device went down or away."""
    state["routes"] = [route for route in state.get("routes", []) if route["dev"] != name]


def again(state: State, name: str) -> None:
    """A device is up: its owner sets the routes that it is told of."""
    gateway = state.get("gateways", {}).get(name)
    if gateway and state["variant"]["owner"] != "ifupdown" and state["netdevs"][name]["addresses"]:
        replace(state, ["default", "via", gateway, "dev", name])


def default(state: State) -> str:
    """The device of the default route; "" where there is none."""
    return next((str(route["dev"]) for route in state.get("routes", []) if route["to"] == "default"), "")


def table(state: State) -> str:
    """/proc/net/route: addresses in hexadecimal, low byte first."""
    rows = ["Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT"]
    for route in state.get("routes", []):
        if route["to"] == "default":
            gateway = _hexadecimal(route["via"] or "0.0.0.0")
            rows.append(f"{route['dev']}\t00000000\t{gateway}\t0003\t0\t0\t0\t00000000\t0\t0\t0")
    for line in lines(state, "-4"):
        words = line.split()
        if "kernel" in words:
            network = ipaddress.ip_network(words[0])
            mask = _hexadecimal(str(network.netmask))
            rows.append(
                f"{words[2]}\t{_hexadecimal(str(network.network_address))}\t00000000\t0001\t0\t0\t0\t{mask}\t0\t0\t0"
            )
    return "\n".join(rows) + "\n"


def _hexadecimal(address: str) -> str:
    return ipaddress.ip_address(address).packed[::-1].hex().upper()
