"""PCI configuration space of made-up functions, and the words of lspci for the same."""

from __future__ import annotations

from typing import Any

from ansible_collections.nearmetal.rack.plugins.module_utils.observe import pcie

_PORTS = {name: number for number, name in pcie.PORTS.items()}
_SPEEDS = {name: number for number, name in pcie.SPEEDS.items()}
EXPRESS, ACS, ATS = 0x60, 0x150, 0x200


def registers(port: str = "endpoint", **more: Any) -> dict[str, Any]:
    """A state.Pcie: a function as it comes up."""
    return {
        "port": port, "max_payload": 256, "max_payload_able": 512, "max_read_request": 512, "relaxed_ordering": True,
        "link": "32 GT/s x16", "link_able": "32 GT/s x16", "ats_capable": False, "ats_enabled": None, "acs": None, **more,
    }  # fmt: skip


def bridge(port: str = "downstream", enabled: str = "0011101", able: str = "1011111") -> dict[str, Any]:
    """Registers of a bridge with ACS."""
    return registers(port, acs={"able": able, "enabled": enabled})


def space(told: dict[str, Any], vendor: int = 0x15B3, device: int = 0x1021) -> bytearray:
    """4096 bytes that say just that."""
    data = bytearray(4096)
    data[0:4] = vendor.to_bytes(2, "little") + device.to_bytes(2, "little")
    data[6], data[0x34] = 0x10, 0x40
    data[0x40], data[0x41] = 0x05, EXPRESS  # MSI first: the list has to be walked
    data[EXPRESS] = 0x10
    put(data, EXPRESS + 2, 2 | _PORTS[told["port"]] << 4)
    put(data, EXPRESS + 4, _power(told["max_payload_able"]))
    put(data, EXPRESS + 8, _power(told["max_payload"]) << 5 | _power(told["max_read_request"]) << 12
        | (0x10 if told["relaxed_ordering"] else 0))  # fmt: skip
    for at, link in ((12, told["link_able"]), (18, told["link"])):
        if link:
            speed, _unit, width = link.split()
            put(data, EXPRESS + at, _SPEEDS.get(speed, 0) | int(width[1:]) << 4)
    put(data, 0x100, 0x0001)
    put(data, 0x102, 1 | ACS << 4)  # AER
    acs = told["acs"]
    put(data, ACS, 0x000D if acs else 0x0003)
    put(data, ACS + 2, 1 | (ATS << 4 if told["ats_capable"] else 0))
    if acs:
        put(data, ACS + 4, int(acs["able"], 2))
        put(data, ACS + 6, int(acs["enabled"], 2))
    if told["ats_capable"]:
        put(data, ATS, 0x000F)
        put(data, ATS + 2, 1)
        put(data, ATS + 6, 0x8000 if told["ats_enabled"] else 0)
    return data


def put(data: bytearray, at: int, value: int) -> None:
    """A word of two bytes."""
    data[at : at + 2] = value.to_bytes(2, "little")


def _power(size: int) -> int:
    return (size // 128).bit_length() - 1


_TYPES = {
    "endpoint": "Express (v2) Endpoint, IntMsgNum 0", "legacy": "Express (v2) Legacy Endpoint, MSI 00",
    "root": "Express (v2) Root Port (Slot+), IntMsgNum 0", "upstream": "Express (v2) Upstream Port, IntMsgNum 0",
    "downstream": "Express (v2) Downstream Port (Slot-), MSI 00",
    "integrated": "Express (v2) Root Complex Integrated Endpoint, MSI 00",
}  # fmt: skip


def lspci(address: str, told: dict[str, Any]) -> str:
    """As `lspci -vvv` prints it."""
    lines = [
        f"{address} Ethernet controller: Mellanox Technologies MT2910 Family [ConnectX-7]", "\tControl: I/O- Mem+ BusMaster+",
        "\tCapabilities: [40] MSI: Enable- Count=1/1 Maskable- 64bit+", "\t\tAddress: 0000000000000000  Data: 0000",
        f"\tCapabilities: [60] {_TYPES[told['port']]}",
        f"\t\tDevCap:\tMaxPayload {told['max_payload_able']} bytes, PhantFunc 0, Latency L0s unlimited",
        "\t\t\tExtTag+ AttnBtn- RBE+ FLReset+ SlotPowerLimit 75W",
        "\t\tDevCtl:\tCorrErr- NonFatalErr+ FatalErr+ UnsupReq-",
        f"\t\t\tRlxdOrd{'+' if told['relaxed_ordering'] else '-'} ExtTag+ PhantFunc- AuxPwr- NoSnoop+ FLReset-",
        f"\t\t\tMaxPayload {told['max_payload']} bytes, MaxReadReq {told['max_read_request']} bytes",
        "\t\tDevSta:\tCorrErr+ NonFatalErr- FatalErr- UnsupReq+ AuxPwr- TransPend-",
    ]  # fmt: skip
    for name, link, tail in (("LnkCap:\tPort #0,", told["link_able"], "ASPM not supported"), ("LnkSta:\t", told["link"], "")):
        if link:
            speed, _unit, width = link.split()
            lines.append(f"\t\t{name} Speed {speed}GT/s, Width {width}{', ' + tail if tail else ''}")
    if told["acs"]:
        lines.append("\tCapabilities: [150 v1] Access Control Services")
        for name, bits in (("ACSCap", told["acs"]["able"]), ("ACSCtl", told["acs"]["enabled"])):
            flags = " ".join(n + ("+" if b == "1" else "-") for n, b in zip(pcie.ACS_FLAGS, reversed(bits), strict=True))
            lines.append(f"\t\t{name}:\t{flags}")
    if told["ats_capable"]:
        lines += ["\tCapabilities: [200 v1] Address Translation Service (ATS)", "\t\tATSCap:\tInvalidate Queue Depth: 00",
                  f"\t\tATSCtl:\tEnable{'+' if told['ats_enabled'] else '-'}, Smallest Translation Unit: 00"]  # fmt: skip
    return "\n".join([*lines, "\tKernel driver in use: mlx5_core", "", ""])
