"""What is in the chassis: processors, memory, and every PCI function with its place below the root ports.

The same for all simulated servers, but for serial numbers and MACs. A server with two sockets, four GPUs and two PCIe
switches: each switch has a ConnectX-7 and two GPUs below it, as HGX and DGX systems have.

    socket 0: 14:01.0 root port -> 15:00.0 upstream -> 16:00.0 downstream -> 17:00.0, 17:00.1  ConnectX-7, two ports
                                                    -> 16:01.0 downstream -> 18:00.0           GPU
                                                    -> 16:02.0 downstream -> 19:00.0           GPU
    socket 1: 94:01.0 root port -> 95:00.0 upstream -> 96:00.0 downstream -> 97:00.0           ConnectX-7, one port
                                                    -> 96:01.0 downstream -> 98:00.0           GPU
                                                    -> 96:02.0 downstream -> 99:00.0           GPU
              b0:01.0 root port -> b1:00.0                                                     ConnectX-7, one port
    socket 0: 00:1c.0 root port -> 02:00.0, 02:00.1  I350 (management), 05:01.0, 05:02.0 -> NVSwitches 06:00.0, 07:00.0
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

NVIDIA, MELLANOX, INTEL, BROADCOM = 0x10DE, 0x15B3, 0x8086, 0x1000
ROOT, UPSTREAM, DOWNSTREAM, ENDPOINT = 4, 5, 6, 0
"""Device/port types of the PCI Express capability (PCI Express Base Specification, 7.5.3.2)."""

MGMT, IGB2 = "0000:02:00.0", "0000:02:00.1"
CARD_A, CARD_B, CARD_C = "0000:17:00", "0000:97:00", "0000:b1:00"


@dataclass(frozen=True)
class Part:
    """One PCI function.

    `parent` is the address of the bridge above it; "" on a root bus. `buses` of a bridge: secondary and subordinate.
    """

    address: str
    parent: str
    class_: int
    vendor: int
    device: int
    node: int
    kind: str  # port | gpu | audio | nvswitch | mlx5 | igb
    port: int = ENDPOINT
    subsystem: tuple[int, int] = (0, 0)
    buses: tuple[int, int] = (0, 0)

    @property
    def is_bridge(self) -> bool:
        """Whether it has a header of type 1."""
        return self.port != ENDPOINT


def _bridge(address: str, parent: str, port: int, node: int, buses: tuple[int, int]) -> Part:
    vendor, device = (INTEL, 0x352A) if port == ROOT else (BROADCOM, 0xC030)
    return Part(address, parent, 0x060400, vendor, device, node, "port", port, (vendor, 0x0000), buses)


def _switch(node: int, root: str, bus: int, last: int) -> list[Part]:
    """A root port and a PCIe switch with three downstream ports below it."""
    up, down = f"0000:{bus + 1:02x}:00.0", bus + 2
    found = [_bridge(root, "", ROOT, node, (bus + 1, last)), _bridge(up, root, UPSTREAM, node, (down, last))]
    for number in range(3):
        below = down + 1 + number
        found.append(_bridge(f"0000:{down:02x}:{number:02x}.0", up, DOWNSTREAM, node, (below, below)))
    return found


def _gpu(bus: int, parent: str, node: int, model: str) -> list[Part]:
    address = f"0000:{bus:02x}:00"
    if model == "l40s":
        return [
            Part(f"{address}.0", parent, 0x030200, NVIDIA, 0x26B9, node, "gpu", subsystem=(NVIDIA, 0x1851)),
            Part(f"{address}.1", parent, 0x040300, NVIDIA, 0x22BA, node, "audio", subsystem=(NVIDIA, 0x1851)),
        ]
    return [Part(f"{address}.0", parent, 0x030200, NVIDIA, 0x2330, node, "gpu", subsystem=(NVIDIA, 0x16C1))]


def _nic(address: str, parent: str, node: int) -> Part:
    return Part(address, parent, 0x020000, MELLANOX, 0x1021, node, "mlx5", subsystem=(MELLANOX, 0x0028))


def _igb(address: str) -> Part:
    return Part(address, "0000:00:1c.0", 0x020000, INTEL, 0x1521, 0, "igb", subsystem=(INTEL, 0x0001))


@cache
def parts(gpu: str = "h100") -> tuple[Part, ...]:
    """All functions in the order of their addresses. gpu: h100 (with NVSwitches) or l40s (with audio functions)."""
    found = [_bridge("0000:00:1c.0", "", ROOT, 0, (2, 2)), _igb(MGMT), _igb(IGB2)]
    if gpu == "h100":
        for at, bus in ((1, 6), (2, 7)):
            root = f"0000:05:{at:02x}.0"
            found.append(_bridge(root, "", ROOT, 0, (bus, bus)))
            found.append(
                Part(
                    f"0000:{bus:02x}:00.0",
                    root,
                    0x068000,
                    NVIDIA,
                    0x22A3,
                    0,
                    "nvswitch",
                    subsystem=(NVIDIA, 0x1796),
                )
            )
    found += _switch(0, "0000:14:01.0", 0x14, 0x19)
    found += [_nic("0000:17:00.0", "0000:16:00.0", 0), _nic("0000:17:00.1", "0000:16:00.0", 0)]
    found += [*_gpu(0x18, "0000:16:01.0", 0, gpu), *_gpu(0x19, "0000:16:02.0", 0, gpu)]
    found += _switch(1, "0000:94:01.0", 0x94, 0x99)
    found += [_nic("0000:97:00.0", "0000:96:00.0", 1)]
    found += [*_gpu(0x98, "0000:96:01.0", 1, gpu), *_gpu(0x99, "0000:96:02.0", 1, gpu)]
    found += [_bridge("0000:b0:01.0", "", ROOT, 1, (0xB1, 0xB1)), _nic("0000:b1:00.0", "0000:b0:01.0", 1)]
    return tuple(sorted(found, key=lambda part: part.address))


@cache
def by_address(gpu: str = "h100") -> dict[str, Part]:
    """The same by address."""
    return {part.address: part for part in parts(gpu)}


@cache
def folder(address: str, gpu: str = "h100") -> str:
    """Its folder in /sys/devices."""
    part = by_address(gpu)[address]
    above = folder(part.parent, gpu) if part.parent else f"/sys/devices/pci{address[:7]}"
    return f"{above}/{address}"


def vf_address(pf: str, offset: int, index: int) -> str:
    """Routing id of a VF: its PF's, plus First VF Offset, plus its number (SR-IOV specification, 2.1.2)."""
    domain, bus, rest = pf.split(":")
    slot, function = rest.split(".")
    number = (int(bus, 16) << 8) + (int(slot, 16) << 3) + int(function) + offset + index
    return f"{domain}:{number >> 8:02x}:{number >> 3 & 0x1F:02x}.{number & 7}"


def cpus_of(hw: dict[str, int], node: int) -> tuple[int, ...]:
    """CPUs of a NUMA node: first threads of all cores, then the second ones."""
    return _cpus(hw["sockets"], hw["cores"], hw["threads"], node)


@cache
def _cpus(sockets: int, cores: int, threads: int, node: int) -> tuple[int, ...]:
    return tuple(
        node * cores + core + thread * sockets * cores for thread in range(threads) for core in range(cores)
    )
