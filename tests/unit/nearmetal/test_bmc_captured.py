"""A BMC from captured JSON: which files make a machine, and what is made up where they say nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nearmetal.bmc import captured, resources
from nearmetal.bmc.service import Service
from nearmetal.errors import BAD_INTENT, NearmetalError

BIOS = "/redfish/v1/Systems/1/Bios"
LOGIN = {"Authorization": "Basic YWRtaW46YWRtaW4="}
SAMPLES = {
    "libredfish-dell": ("dell", "/redfish/v1/Systems/System.Embedded.1/Bios/Settings", 455),
    "libredfish-hpe": ("hpe", "/redfish/v1/systems/1/bios/settings/", 277),
    "libredfish-lenovo": ("lenovo", "/redfish/v1/Systems/1/Bios/Pending", 348),
    "libredfish-supermicro": ("supermicro", "/redfish/v1/Systems/1/Bios/SD", 379),
    "libredfish-nvidia_viking": ("nvidia_dgx", "/redfish/v1/Systems/DGX/Bios/SD", 223),
    "libredfish-nvidia_gb200": ("nvidia_grace", "/redfish/v1/Systems/System_0/Bios/Settings", 403),
    "sushy": ("", "/redfish/v1/Systems/437XR1138R2/BIOS/Settings", 10),
}


def bios(path: str = BIOS, settings: str = "", **more: Any) -> dict[str, Any]:
    made = {"@odata.id": path, "@odata.type": "#Bios.v1_2_0.Bios", "Attributes": {"A": "x", "N": 1}, **more}
    if settings:
        made["@Redfish.Settings"] = {"SettingsObject": {"@odata.id": settings}}
    return made


def write(folder: Path, **documents: Any) -> Path:
    """Files of a folder; the words of their names are joined with - again."""
    for name, document in documents.items():
        (folder / f"{name.replace('__', '-')}.json").write_text(document if isinstance(document, str) else json.dumps(document))
    return folder


def get(service: Service, path: str) -> dict[str, Any]:
    reply = service.answer("GET", path, LOGIN, b"")
    assert reply.status == 200 and reply.document is not None, path
    return reply.document


@pytest.mark.parametrize("platform", SAMPLES)
def test_samples(platform: str, samples: Path) -> None:
    folder = samples / "redfish"
    if not folder.is_dir():
        pytest.skip(f"no sample {folder}")
    vendor, settings, count = SAMPLES[platform]
    machine = captured.load(folder, platform)
    assert (machine.vendor, machine.settings_path, len(machine.current)) == (vendor, settings, count)
    assert (machine.registry is not None) == (platform == "sushy")
    service = Service(machine)
    assert get(service, machine.bios_path)["Attributes"] == machine.shown()
    assert get(service, settings)["Attributes"] == machine.pending()
    system = get(service, resources.system_path(machine))
    assert get(service, "/redfish/v1/Systems")["Members"] == [{"@odata.id": system["@odata.id"]}]
    assert get(service, system["Bios"]["@odata.id"])["@odata.id"] == machine.bios_path


def test_what_is_missing_is_made_up(tmp_path: Path) -> None:
    machine = captured.load(write(tmp_path, dell__Systems_1_Bios=bios()), "dell")
    assert (machine.vendor, machine.settings_path, machine.waiting) == ("dell", f"{BIOS}/Settings", {})
    service = Service(machine)
    assert get(service, "/redfish/v1")["Systems"] == {"@odata.id": "/redfish/v1/Systems"}
    system = get(service, "/redfish/v1/Systems/1")
    assert system["Manufacturer"] == "Dell Inc." and system["Bios"] == {"@odata.id": BIOS}
    assert get(service, f"{BIOS}/Settings")["Attributes"] == {}
    assert get(service, BIOS)["@Redfish.Settings"]["SettingsObject"] == {"@odata.id": f"{BIOS}/Settings"}


def test_paths_are_those_of_the_documents_whatever_the_files_are_called(tmp_path: Path) -> None:
    place = "/redfish/v1/Systems/odd/BIOS"
    pending = {"@odata.id": f"{place}/Later", "@odata.type": "#Bios.v1_2_0.Bios", "Attributes": {"A": "y", "N": 1, "Gone": 2}}
    disk = {"@odata.id": "/redfish/v1/Systems/odd/Storage", "Name": "disks"}
    write(tmp_path, m__zz=bios(place, f"{place}/Later"), m__a=pending, m__b=disk, m__c=[1], m__d={"no": "path"})
    machine = captured.load(tmp_path, "m")
    assert (machine.bios_path, machine.settings_path) == (place, f"{place}/Later")
    assert machine.waiting == {"A": "y"}, "what waits is what differs from the present"
    assert get(Service(machine), "/redfish/v1/Systems/odd/Storage") == disk
    machine.boot_up()
    assert machine.current == {"A": "y", "N": 1}


def test_paths_of_ilo(tmp_path: Path) -> None:
    place = "/redfish/v1/systems/1/bios/"
    system = {"@odata.id": "/redfish/v1/Systems/1/", "Manufacturer": "HPE", "Model": "ProLiant DL380 Gen11", "SKU": "P1"}
    write(tmp_path, ilo__a=bios(place, f"{place}settings/"), ilo__b=system)
    machine = captured.load(tmp_path, "ilo")
    service = Service(machine)
    assert (machine.vendor, machine.traits.model) == ("hpe", "ProLiant DL380 Gen11")
    assert get(service, "/redfish/v1/Systems/1/")["SKU"] == get(service, "/redfish/v1/systems/1")["SKU"] == "P1"
    assert get(service, place) == get(service, "/redfish/v1/Systems/1/Bios")
    assert get(service, "/redfish/v1/systems/1/Bios/Settings")["Attributes"] == machine.current


def test_registry_and_apply_times_of_the_capture(tmp_path: Path) -> None:
    entries = {"Attributes": [{"AttributeName": "N", "Type": "Integer", "LowerBound": 0, "UpperBound": 4}]}
    document = bios(settings=f"{BIOS}/SD", AttributeRegistry="Mine.1.0")
    document["@Redfish.Settings"]["SupportedApplyTimes"] = ["OnReset", "Immediate"]
    write(tmp_path, m__a=document, m__b={"@odata.id": "/redfish/v1/Registries/x.json", "RegistryEntries": entries})
    machine = captured.load(tmp_path, "m")
    assert machine.traits.apply_times == ("OnReset", "Immediate")
    assert machine.entry("N")["UpperBound"] == 4
    service = Service(machine)
    assert get(service, "/redfish/v1/Registries/Mine.1.0/Registry.json")["RegistryEntries"] == entries
    body = json.dumps({"Attributes": {"N": 5}}).encode()
    assert service.answer("PATCH", f"{BIOS}/SD", LOGIN, body).status == 400


def test_parts_that_are_null(tmp_path: Path) -> None:
    system = {"@odata.id": "/redfish/v1/Systems/1", "Manufacturer": None, "Model": None}
    document = {**bios(), "@Redfish.Settings": None, "Actions": None}
    machine = captured.load(write(tmp_path, lenovo__a=document, lenovo__b=system), "lenovo")
    service = Service(machine)
    assert machine.traits.manufacturer == "Lenovo" and machine.settings_path == f"{BIOS}/Pending"
    assert get(service, "/redfish/v1")["Vendor"] == "Lenovo"
    assert get(service, BIOS)["@Redfish.Settings"]["SettingsObject"]["@odata.id"] == f"{BIOS}/Pending"


def test_a_platform_is_not_mixed_with_another_whose_name_is_longer(tmp_path: Path) -> None:
    write(tmp_path, dell__Systems_1_Bios=bios(), dell__amd__Systems_2_Bios=bios("/redfish/v1/Systems/2/Bios"))
    assert captured.platforms(tmp_path) == ["dell", "dell-amd"]
    assert captured.load(tmp_path, "dell").documents.keys() == {BIOS}
    assert captured.load(tmp_path, "dell-amd").documents.keys() == {"/redfish/v1/Systems/2/Bios"}


@pytest.mark.parametrize(
    ("documents", "platform", "words"),
    [
        ({}, "m", "platforms there: none"),
        ({"a__Systems_1": bios(), "b__bios": bios()}, "m", "platforms there: a, b"),
        ({"m__a": "{"}, "m", "m-a.json is no JSON"),
        ({"m__a": {"@odata.id": "/x"}}, "m", "none of the files m-*.json"),
        ({"m__a": {**bios(), "Attributes": None}}, "m", "is a BIOS resource with Attributes"),
    ],
)
def test_no_machine(documents: dict[str, Any], platform: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(NearmetalError) as caught:
        captured.load(write(tmp_path, **documents), platform)
    assert words in str(caught.value) and caught.value.code == BAD_INTENT


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(NearmetalError, match="no such folder"):
        captured.load(tmp_path / "none", "m")
