"""A captured BMC: what is left out, and that the test server serves it as the BMC did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.nearmetal.rack.plugins.plugin_utils.redfish import Access, Bmc, capturing, reading

from nearmetal import bmc_capture
from nearmetal.bmc import captured
from nearmetal.bmc.machine import Machine
from nearmetal.bmc.server import BmcServer
from nearmetal.scrub import Scrubber

MARKS = ("SN-4711", "asset-9", "00:1b:21:aa:bb:cc", "A088C2C36F6E", "hunter2", "node7.example.org", "10.11.12.13", "Jane Doe")


def secretive() -> dict[str, dict[str, Any]]:
    return {
        "/redfish/v1/Systems/1": {
            "@odata.id": "/redfish/v1/Systems/1", "Manufacturer": "Lenovo", "SerialNumber": "SN-4711", "AssetTag": "asset-9",
            "HostName": "node7.example.org", "BiosVersion": "7.10.30.00", "Note": "at 10.11.12.13 with 00:1b:21:aa:bb:cc"},
        "/redfish/v1/Systems/1/Bios": {
            "@odata.id": "/redfish/v1/Systems/1/Bios",
            "Attributes": {"Mellanox_A088C2C36F6E__Slot15": "Auto", "AdminName": "Jane Doe", "AssetTagProtection": "Disabled"}},
    }  # fmt: skip


def test_what_is_left_out() -> None:
    found = bmc_capture.files(secretive(), Scrubber())
    assert found.keys() == {"/redfish/lenovo-Systems_1.json", "/redfish/lenovo-Systems_1_Bios.json"}
    text = "".join(str(v) for v in found.values())
    assert not [mark for mark in MARKS if mark in text]
    bios = json.loads(found["/redfish/lenovo-Systems_1_Bios.json"])["Attributes"]
    assert bios["AssetTagProtection"] == "Disabled" and "Mellanox_020000000002__Slot15" in bios
    assert "7.10.30.00" in text
    assert "SN-4711" in "".join(str(v) for v in bmc_capture.files(secretive(), Scrubber(["serials"])).values())


@pytest.mark.parametrize("vendor", ["dell", "hpe", "lenovo", "supermicro", "nvidia_dgx", "nvidia_grace"])
def test_served_again(vendor: str, tmp_path: Path) -> None:
    def read(machine: Machine) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        with BmcServer(machine, tls=False) as server, Bmc(Access(server.url, "admin", "admin")) as bmc:
            return reading.read(bmc), capturing.documents(bmc)

    before, documents = read(Machine.made_up(vendor))
    for path, text in bmc_capture.files(documents, Scrubber()).items():
        (tmp_path / Path(path).name).write_text(str(text))
    (platform,) = captured.platforms(tmp_path)
    machine = captured.load(tmp_path, platform)
    after, _documents = read(machine)
    assert machine.vendor == vendor
    assert (machine.registry is None) == (vendor == "nvidia_grace")
    for part in ("current", "settings", "registry", "apply_times"):
        assert after["bios"][part] == before["bios"][part], part
    assert (after["manufacturer"], after["model"]) == (before["manufacturer"], before["model"])
