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
    def serial_log(self) -> Path:
        """All that the node ever wrote to its serial port."""
        return self.folder / "serial.log"

    @property
    def qemu_log(self) -> Path:
        """What QEMU said."""
        return self.folder / "qemu.log"

    def socket(self, kind: str) -> Path:
        """Unix socket: qmp, monitor, serial, or a network port of the switch (f0, f1)."""
        return self.runtime / f"{self.name}-{kind}"


@dataclass(frozen=True)
class Hardware:
    """What stays the same over the life of a node."""

    uuid: str
    accel: str
    version: tuple[int, int]
    macs: dict[str, str] = field(default_factory=dict)


def mac(rack: str, number: int, index: int) -> str:
    """Locally administered address of a card of a node; racks differ in the fourth byte."""
    return f"52:54:00:{hashlib.sha256(rack.encode()).digest()[0]:02x}:{number:02x}:{index:02x}"


def machine_options(accel: str) -> list[str]:
    """Board and processor, as far as the accelerator matters to them."""
    full = "tcg,thread=multi,tb-size=512" if accel == "tcg" else accel
    return ["-nodefaults", "-machine", "q35,kernel-irqchip=split,smm=off", "-accel", full, "-cpu", "max,-la57"]


def machine(spec: NodeSpec, hardware: Hardware) -> list[str]:
    """Board, processors and memory."""
    half = spec.memory_mib // 2
    return [
        *machine_options(hardware.accel),
        "-uuid", hardware.uuid, "-m", str(spec.memory_mib), "-smp", "8,sockets=2,cores=2,threads=2",
        "-object", f"memory-backend-ram,id=m0,size={half}M", "-object", f"memory-backend-ram,id=m1,size={half}M",
        "-numa", "node,nodeid=0,cpus=0-3,memdev=m0", "-numa", "node,nodeid=1,cpus=4-7,memdev=m1",
        "-numa", "dist,src=0,dst=1,val=21",
        "-device", "intel-iommu,intremap=on,device-iotlb=on,caching-mode=on",
        "-device", "virtio-rng-pci,bus=pcie.0", "-display", "none", "-vga", "none",
    ]  # fmt: skip


def cards(spec: NodeSpec, hardware: Hardware, files: NodeFiles) -> list[str]:
    """The cards with SR-IOV, one below each NUMA node's own PCI root, each wired to its port of the switch."""
    newer = hardware.version >= RECONNECT_MS_SINCE
    reconnect = "reconnect-ms=500" if newer else "reconnect=1"
    argv = []
    for i, card in enumerate(spec.cards):
        argv += [
            "-device", f"pxb-pcie,id=pxb{i},bus=pcie.0,bus_nr={32 * (i + 1)},numa_node={i},addr={8 + i}",
            "-device", f"pcie-root-port,id=rp{i},bus=pxb{i},chassis={i + 1},slot={i + 1},addr=0",
            "-netdev", f"stream,id={card},server=off,addr.type=unix,addr.path={files.socket(card)},{reconnect}",
            "-device", f"igb,netdev={card},bus=rp{i},mac={hardware.macs[card]}",
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
        "-monitor", f"unix:{files.socket('monitor')},server=on,wait=off",
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
