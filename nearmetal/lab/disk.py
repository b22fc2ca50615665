"""A bootable disk image from a tree of files, without loop devices and without root."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from ..errors import NearmetalError
from .recipe import BIOS_SECTOR, DISK_GIB, ESP_SECTOR, ROOT_SECTOR, Recipe

SECTOR = 512
# GPT keeps its second table in the last 33 sectors; sgdisk ends the last partition on a MiB boundary before.
DISK_SECTORS = DISK_GIB * 2**30 // SECTOR
ROOT_SECTORS = DISK_SECTORS - 2048 - ROOT_SECTOR

# Fields of GRUB's boot.img (boot.h) and of the block list at the end of core.img's first sector (diskboot.h).
BOOT_KERNEL_SECTOR, BOOT_DRIVE_CHECK = 0x5C, 0x66
BOOT_CODE = (slice(0, 3), slice(0x5A, 0x1B8))
LIST_START, LIST_LENGTH = 0x1F4, 0x1FC


def boot_sector(mbr: bytes, boot_img: bytes, core_sector: int) -> bytes:
    """The first sector of a disk: GRUB's boot.img that loads `core_sector`, with the disk's own partition table.

    Does what grub-bios-setup does, which wants a block device.
    """
    sector = bytearray(mbr[:SECTOR])
    code = bytearray(boot_img[:SECTOR])
    code[BOOT_KERNEL_SECTOR : BOOT_KERNEL_SECTOR + 8] = core_sector.to_bytes(8, "little")
    # For a hard disk the check of the drive number that the firmware passed is left out.
    code[BOOT_DRIVE_CHECK : BOOT_DRIVE_CHECK + 2] = b"\x90\x90"
    for part in BOOT_CODE:
        sector[part] = code[part]
    sector[510:512] = b"\x55\xaa"
    return bytes(sector)


def core_at(core_img: bytes, sector: int) -> bytes:
    """core.img for a place on the disk: its first sector lists where the others are."""
    sectors = -(-len(core_img) // SECTOR)
    core = bytearray(core_img.ljust(sectors * SECTOR, b"\0"))
    core[LIST_START : LIST_START + 8] = (sector + 1).to_bytes(8, "little")
    core[LIST_LENGTH : LIST_LENGTH + 2] = (sectors - 1).to_bytes(2, "little")
    return bytes(core)


def partition(disk: Path, recipe: Recipe, log: Path) -> None:
    """Make an empty disk with the three partitions."""
    with disk.open("wb") as f:
        f.truncate(DISK_SECTORS * SECTOR)
    run(
        [
            "sgdisk", "--clear",
            f"--new=1:{BIOS_SECTOR}:{ESP_SECTOR - 1}", "--typecode=1:ef02", "--change-name=1:bios",
            f"--new=2:{ESP_SECTOR}:{ROOT_SECTOR - 1}", "--typecode=2:ef00", "--change-name=2:esp",
            f"--new=3:{ROOT_SECTOR}:{ROOT_SECTOR + ROOT_SECTORS - 1}", "--typecode=3:8304", "--change-name=3:root",
            f"--partition-guid=3:{recipe.root_partuuid}", str(disk),
        ],
        log,
    )  # fmt: skip


def install_loaders(disk: Path, out: Path, log: Path) -> None:
    """Put both boot loaders on the disk; `out` holds boot.img, core.img and bootx64.efi."""
    core = (out / "core.img").read_bytes()
    if len(core) > (ESP_SECTOR - BIOS_SECTOR) * SECTOR:
        raise NearmetalError(f"core.img of GRUB has {len(core)} bytes, more than the BIOS boot partition")
    with disk.open("r+b") as f:
        mbr = f.read(SECTOR)
        f.seek(0)
        f.write(boot_sector(mbr, (out / "boot.img").read_bytes(), BIOS_SECTOR))
        f.seek(BIOS_SECTOR * SECTOR)
        f.write(core_at(core, BIOS_SECTOR))
    esp = f"{disk}@@{ESP_SECTOR * SECTOR}"
    run(["mformat", "-i", esp, "-T", str(ROOT_SECTOR - ESP_SECTOR), "-h", "16", "-s", "63", "-v", "ESP", "::"], log)
    run(["mmd", "-i", esp, "::/EFI", "::/EFI/BOOT"], log)
    run(["mcopy", "-i", esp, str(out / "bootx64.efi"), "::/EFI/BOOT/BOOTX64.EFI"], log)


def run(argv: list[str], log: Path) -> None:
    """Run a tool with its output in the build log; raises CalledProcessError."""
    with log.open("ab") as out:
        out.write(f"+ {' '.join(argv)}\n".encode())
        out.flush()
        env = {**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin", "MTOOLS_SKIP_CHECK": "1"}
        subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=True, env=env)
