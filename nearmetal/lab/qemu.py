"""The command line of a node: two NUMA nodes, SMT, two network cards with SR-IOV, an emulated IOMMU."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

from .preflight import QEMU
from .recipe import SEED

#: QEMU 9.2 replaced `reconnect` (seconds) by `reconnect-ms`.
RECONNECT_MS_SINCE = (9, 2)


@dataclass(frozen=True)
class NodeSpec:
    """What one node is like. Memory stays below 4 GiB: above, QEMU 10.0 maps the BARs of VFs wrongly."""

    name: str
    number: int
    group: str = "compute"
    memory_mib: int = 2048
    cards: tuple[str, ...] = ("f0", "f1")


@dataclass(frozen=True)
class NodeFiles:
    """Where the parts of one node are: lasting ones in its folder, sockets in the rack's short-lived one."""

    folder: Path
    runtime: Path
    name: str

    @property
    def disk(self) -> Path:
        """Overlay over the node image, with the snapshots."""
        return self.folder / "disk.qcow2"

    @property
    def seed(self) -> Path:
        """The node's identity, a tar archive."""
        return self.folder / "seed.tar"

    @property
    def bios(self) -> Path:
        """Values of its BIOS and what is pending, as its BMC keeps them (see `bios`)."""
        return self.folder / "bios.json"

    @property
    def serial_log(self) -> Path:
        """All that the node ever wrote to its serial port."""
        return self.folder / "serial.log"

    @property
    def qemu_log(self) -> Path:
        """What QEMU said."""
        return self.folder / "qemu.log"

    def socket(self, kind: str) -> Path:
        """Unix socket: qmp, events (QMP for the BMC), serial, or a network port of the switch (f0, f1)."""
        return self.runtime / f"{self.name}-{kind}"


@dataclass(frozen=True)
class Firmware:
    """What the BIOS made of the board: changes only when a node boots (see `bios`)."""

    smt: bool = True
    nodes_per_socket: int = 1
    iommu: bool = True
    sriov: bool = True
    virtualization: bool = True


@dataclass(frozen=True)
class Hardware:
    """What a node is made of. `firmware` may differ from boot to boot, the rest stays the same."""

    uuid: str
    accel: str
    version: tuple[int, int]
    macs: dict[str, str] = field(default_factory=dict)
    firmware: Firmware = Firmware()


def mac(rack: str, number: int, index: int) -> str:
    """Locally administered address of a card of a node; racks differ in the fourth byte."""
    return f"52:54:00:{hashlib.sha256(rack.encode()).digest()[0]:02x}:{number:02x}:{index:02x}"


def machine_options(accel: str, virtualization: bool = True) -> list[str]:
    """Board and processor, as far as the accelerator matters to them."""
    full = "tcg,thread=multi,tb-size=512" if accel == "tcg" else accel
    cpu = "max,-la57" if virtualization else "max,-la57,-svm,-vmx"
    return ["-nodefaults", "-machine", "q35,kernel-irqchip=split,smm=off", "-accel", full, "-cpu", cpu]


def machine(spec: NodeSpec, hardware: Hardware) -> list[str]:
    """Board, processors and memory. A reset ends QEMU: the BMC starts it again, as the BIOS then wants it."""
    firmware = hardware.firmware
    threads = 2 if firmware.smt else 1
    argv = [
        *machine_options(hardware.accel, firmware.virtualization), "-action", "reboot=shutdown",
        "-uuid", hardware.uuid, "-m", str(spec.memory_mib), "-smp", f"{4 * threads},sockets=2,cores=2,threads={threads}",
        *numa(spec, firmware),
    ]  # fmt: skip
    if firmware.iommu:
        argv += ["-device", "intel-iommu,intremap=on,device-iotlb=on,caching-mode=on"]
    return [*argv, "-device", "virtio-rng-pci,bus=pcie.0", "-display", "none", "-vga", "none"]


def numa(spec: NodeSpec, firmware: Firmware) -> list[str]:
    """NUMA nodes of equal size; within a socket 12 apart, as ACPI's SLIT has it for sub-NUMA clusters, else 21."""
    count = 2 * firmware.nodes_per_socket
    size, cpus = spec.memory_mib // count, (8 if firmware.smt else 4) // count
    argv = []
    for node in range(count):
        first, last = node * cpus, (node + 1) * cpus - 1
        argv += ["-object", f"memory-backend-ram,id=m{node},size={size}M"]
        argv += ["-numa", f"node,nodeid={node},cpus={first if first == last else f'{first}-{last}'},memdev=m{node}"]
    for one in range(count):
        for other in range(one + 1, count):
            same = one // firmware.nodes_per_socket == other // firmware.nodes_per_socket
            argv += ["-numa", f"dist,src={one},dst={other},val={12 if same else 21}"]
    return argv


def cards(spec: NodeSpec, hardware: Hardware, files: NodeFiles) -> list[str]:
    """The cards, one below each socket's own PCI root, each wired to its port of the switch.

    igb has SR-IOV and cannot be told to hide it; where the BIOS switched it off, its place is taken by e1000e.
    """
    newer = hardware.version >= RECONNECT_MS_SINCE
    reconnect = "reconnect-ms=500" if newer else "reconnect=1"
    model = "igb" if hardware.firmware.sriov else "e1000e"
    argv = []
    for i, card in enumerate(spec.cards):
        node = i * hardware.firmware.nodes_per_socket
        argv += [
            "-device", f"pxb-pcie,id=pxb{i},bus=pcie.0,bus_nr={32 * (i + 1)},numa_node={node},addr={8 + i}",
            "-device", f"pcie-root-port,id=rp{i},bus=pxb{i},chassis={i + 1},slot={i + 1},addr=0",
            "-netdev", f"stream,id={card},server=off,addr.type=unix,addr.path={files.socket(card)},{reconnect}",
            "-device", f"{model},netdev={card},bus=rp{i},mac={hardware.macs[card]}",
        ]  # fmt: skip
    return argv


def management(spec: NodeSpec, hardware: Hardware, files: NodeFiles, port: int) -> list[str]:
    """Disk, seed, control sockets, serial port and the network that ssh comes in by."""
    serial = f"socket,id=serial,path={files.socket('serial')},server=on,wait=off"
    return [
        "-drive", f"if=none,id=disk,file={_value(files.disk)},format=qcow2,cache=unsafe,discard=unmap",
        "-device", "virtio-blk-pci,bus=pcie.0,drive=disk,bootindex=0",
        "-fw_cfg", f"name={SEED},file={_value(files.seed)}",
        "-netdev", f"user,id=mgmt,hostfwd=tcp:127.0.0.1:{port}-:22",
        "-device", f"virtio-net-pci,bus=pcie.0,netdev=mgmt,romfile=,mac={hardware.macs['mgmt']}",
        "-qmp", f"unix:{files.socket('qmp')},server=on,wait=off",
        "-qmp", f"unix:{files.socket('events')},server=on,wait=off",
        "-chardev", f"{serial},logfile={_value(files.serial_log)},logappend=on", "-serial", "chardev:serial",
        "-name", f"{spec.name},process=nearmetal-{spec.name}",
    ]  # fmt: skip


def _value(path: Path) -> str:
    """A path inside an option: QEMU wants commas doubled."""
    return str(path).replace(",", ",,")


def command(spec: NodeSpec, hardware: Hardware, files: NodeFiles, port: int, snapshot: str = "") -> list[str]:
    """The whole command; with `snapshot` the node goes on from there instead of booting."""
    argv = [QEMU, *machine(spec, hardware), *cards(spec, hardware, files)]
    argv += management(spec, hardware, files, port)
    return [*argv, "-loadvm", snapshot] if snapshot else argv


def fingerprint(spec: NodeSpec, hardware: Hardware, image: str, version: str) -> str:
    """Equal only where a snapshot made then can be loaded now: same hardware, QEMU and image."""
    nowhere = NodeFiles(Path("/"), Path("/"), spec.name)
    parts = [command(spec, hardware, nowhere, 0), image, version]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
