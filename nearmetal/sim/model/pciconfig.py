"""Configuration space of simulated PCI functions, as bytes that lspci or our own parser can read, and their VPD.

Layout: PCI Express Base Specification, chapters 7.5 (header, PCI Express capability), 7.7.6 (ACS), 10.5 (ATS); SR-IOV
specification 3.3. Registers that can be written are kept in the state: state["pci"][address] = {"acs", "ats",
"devctl"}; everything else follows from the hardware.
"""

from __future__ import annotations

from typing import Any

from .hardware import DOWNSTREAM, ENDPOINT, ROOT, Part

State = dict[str, Any]

PCIE, PM, MSIX, VPD = 0x60, 0x40, 0x50, 0x48
AER, ACS, ATS, SRIOV, ARI = 0x100, 0x150, 0x160, 0x180, 0x170
"""Where the capabilities stand in our functions."""

ACS_CAPABILITY = 0x5F  # SrcValid, TransBlk, ReqRedir, CmpltRedir, UpstreamFwd, DirectTrans
ACS_BITS = {
    "SrcValid": 1,
    "TransBlk": 2,
    "ReqRedir": 4,
    "CmpltRedir": 8,
    "UpstreamFwd": 16,
    "EgressCtrl": 32,
    "DirectTrans": 64,
}
ACS_ISOLATED = 0x1D
"""What Linux sets at boot where the IOMMU is on: SrcValid, ReqRedir, CmpltRedir, UpstreamFwd (pci_std_enable_acs)."""

RELAXED_ORDERING = 0x0010
READ_REQUEST_SHIFT = 12


def default_registers(part: Part) -> dict[str, int]:
    """Registers after power-on and Linux' enumeration: MaxReadReq 512, MaxPayload 256, relaxed ordering on."""
    return {"acs": 0, "ats": 0, "devctl": 2 << READ_REQUEST_SHIFT | 1 << 5 | RELAXED_ORDERING | 0x0800}


def has_acs(part: Part) -> bool:
    """Root ports and downstream ports can redirect; endpoints of one function cannot."""
    return part.port in (ROOT, DOWNSTREAM)


def has_ats(part: Part, firmware: dict[str, Any] | None) -> bool:
    """GPUs always; a ConnectX where its firmware says so (NVIDIA AI Enterprise, Optimizing VM configuration)."""
    return part.kind == "gpu" or part.kind == "mlx5" and bool((firmware or {}).get("ATS_ENABLED"))


def build(
    part: Part, registers: dict[str, int], firmware: dict[str, Any] | None, vfs: tuple[int, int, int]
) -> bytes:
    """All 4096 bytes. firmware: current values of the card. vfs: (made, total, first offset) of a PF."""
    data = bytearray(4096)
    _header(data, part)
    _put(data, PM, [0x01, 0x03, 0x00])
    data[PM + 1] = VPD if part.kind == "mlx5" else MSIX
    if part.kind == "mlx5":
        data[VPD : VPD + 2] = bytes((0x03, MSIX))
    data[MSIX : MSIX + 2] = bytes((0x11, PCIE))
    data[PCIE : PCIE + 2] = bytes((0x10, 0x00))
    _word(data, PCIE + 2, 2 | part.port << 4)
    _long(data, PCIE + 4, 0x10008002)  # MaxPayload 512 supported, role-based errors, FLR
    _word(data, PCIE + 8, registers["devctl"])
    _long(data, PCIE + 12, 0x00400105)
    _word(data, PCIE + 18, 0x1105)
    chain = [AER]
    if has_acs(part):
        chain.append(ACS)
    if has_ats(part, firmware):
        chain.append(ATS)
    if part.port == ENDPOINT and part.kind in ("mlx5", "igb"):
        chain.append(ARI)
    if vfs[1]:
        chain.append(SRIOV)
    numbers = {AER: 0x01, ACS: 0x0D, ATS: 0x0F, ARI: 0x0E, SRIOV: 0x10}
    for at, following in zip(chain, [*chain[1:], 0], strict=True):
        _long(data, at, numbers[at] | 1 << 16 | following << 20)
    if ACS in chain:
        _word(data, ACS + 4, ACS_CAPABILITY)
        _word(data, ACS + 6, registers["acs"])
    if ATS in chain:
        _word(data, ATS + 4, 0x0060)
        _word(data, ATS + 6, registers["ats"])
    if SRIOV in chain:
        made, total, offset = vfs
        _word(data, SRIOV + 8, 0x19 if made else 0x10)
        _word(data, SRIOV + 12, total)
        _word(data, SRIOV + 14, total)
        _word(data, SRIOV + 16, made)
        _word(data, SRIOV + 20, offset)
        _word(data, SRIOV + 22, 1)
    return bytes(data)


def _header(data: bytearray, part: Part) -> None:
    _word(data, 0, part.vendor)
    _word(data, 2, part.device)
    _word(data, 4, 0x0546)
    _word(data, 6, 0x0010)  # has a list of capabilities
    data[9:12] = part.class_.to_bytes(3, "little")
    data[0x0E] = (
        0x01 if part.is_bridge else 0x80 if part.address.endswith(".1") or part.kind in ("mlx5", "igb") else 0
    )
    data[0x34] = PM
    if part.is_bridge:
        data[0x18] = int(part.address[5:7], 16)
        data[0x19], data[0x1A] = part.buses
    else:
        _word(data, 0x2C, part.subsystem[0])
        _word(data, 0x2E, part.subsystem[1])


def vf_config(part: Part) -> bytes:
    """A VF's: vendor and device read as all ones, which the kernel hides (SR-IOV specification 3.4.1)."""
    data = bytearray(4096)
    _word(data, 0, 0xFFFF)
    _word(data, 2, 0xFFFF)
    _word(data, 6, 0x0010)
    data[9:12] = part.class_.to_bytes(3, "little")
    data[0x34] = PCIE
    data[PCIE] = 0x10
    _word(data, PCIE + 2, 2)
    return bytes(data)


def vpd(name: str, part_number: str, serial: str) -> bytes:
    """Vital product data (PCI local bus specification, appendix I): name, then PN and SN, a checksum, the end tag."""
    head = _resource(0x82, name.encode())
    fields = b"".join(
        key + bytes((len(value),)) + value.encode() for key, value in ((b"PN", part_number), (b"SN", serial))
    )
    body = head + bytes((0x90,)) + (len(fields) + 4).to_bytes(2, "little") + fields + b"RV\x01"
    return body + bytes((-sum(body) & 0xFF, 0x78))


def _resource(tag: int, data: bytes) -> bytes:
    return bytes((tag,)) + len(data).to_bytes(2, "little") + data


def _put(data: bytearray, at: int, values: list[int]) -> None:
    data[at : at + len(values)] = bytes(values)


def _word(data: bytearray, at: int, value: int) -> None:
    data[at : at + 2] = value.to_bytes(2, "little")


def _long(data: bytearray, at: int, value: int) -> None:
    data[at : at + 4] = value.to_bytes(4, "little")
