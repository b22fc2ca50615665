"""How numbers, sizes, times and names are written on the page."""

from __future__ import annotations

from datetime import UTC, datetime

KIB = 1024
SIZES = ((KIB**4, "TiB"), (KIB**3, "GiB"), (KIB**2, "MiB"), (KIB, "KiB"))
"""Binary units, the largest first."""

VENDORS = {
    "0x8086": "Intel", "0x10de": "NVIDIA", "0x15b3": "NVIDIA Mellanox", "0x1002": "AMD", "0x1022": "AMD",
    "0x14e4": "Broadcom", "0x1077": "Marvell", "0x1af4": "virtio", "0x1b36": "QEMU", "0x1234": "QEMU",
    "0x1a03": "ASPEED", "0x102b": "Matrox", "0x144d": "Samsung", "0x1ae0": "Google", "0x1d0f": "Amazon",
}  # fmt: skip
"""PCI vendor ids that racks of this kind have; others are shown by number."""


def size(value: float | None) -> str:
    """Bytes in the largest binary unit that gives at least 1: "1.5 GiB"; "not known" for None."""
    if value is None:
        return "not known"
    for factor, unit in SIZES:
        if value >= factor:
            return f"{number(value / factor)} {unit}"
    return f"{value:.0f} B"


def number(value: float) -> str:
    """Four significant digits at most, no exponent, thin groups of three: "12 345", "0.982"."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", "\u202f")
    shown = f"{value:.4g}"
    return f"{value:.6f}".rstrip("0") if "e" in shown else shown


def duration(seconds: float | None) -> str:
    """Such as "0.4 s", "12 s", "3 min 05 s", "1 h 02 min"; "not known" for None."""
    if seconds is None:
        return "not known"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def clock(seconds: float) -> str:
    """Time since the start of a run: "0:07", "3:05", "1:02:09"."""
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


def moment(epoch: float | None) -> str:
    """A point of time in UTC: "2026-11-30 21:55 UTC"; "" for None."""
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%d %H:%M UTC") if epoch is not None else ""


def count(how_many: int, what: str, plural: str = "") -> str:
    """Such as "1 host", "2 hosts", "no hosts"."""
    word = what if how_many == 1 else plural or what + "s"
    return f"{how_many or 'no'} {word}"


def listed(words: list[str], most: int = 6) -> str:
    """Such as "a, b and c"; after `most` words "and N more"."""
    if len(words) > most:
        return ", ".join(words[:most]) + f" and {len(words) - most} more"
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else ""


def vendor(identifier: str) -> str:
    """Name of a PCI vendor, or its number."""
    return VENDORS.get(identifier.lower(), identifier)


def name(identifier: str) -> str:
    """Such as "matched_pinned" as "matched pinned"."""
    return identifier.replace("_", " ")
