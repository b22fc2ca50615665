"""Every fault of the fabric is found where it is, with its evidence, and nowhere else."""

from __future__ import annotations

import copy
from dataclasses import asdict
from typing import Any

import fabric_states as fs
import pytest
import report_fixtures as made
from ansible_collections.nearmetal.rack.plugins.module_utils import audit, fabric_explain
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric.shapes import (
    Desired,
    DesiredBond,
    Forwarding,
)
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric_view import indices, number
from ansible_collections.nearmetal.rack.plugins.module_utils.state import State
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

PF0, PF1 = "0000:17:00.0", "0000:17:00.1"
Document = dict[str, Any]


def found(document: Document, **more: Any) -> dict[str, Any]:
    return {one["id"]: one for one in fabric_explain.findings(document, **more)}


def lag(document: Document, **values: Any) -> Document:
    """With this LAG on both ports."""
    return fs.each_pf(document, lag={"state": "active", "type": "switchdev", "members": [PF0, PF1], **values})


def bound_only(document: Document, *indices_of_pf0: int) -> Document:
    """Only these VFs of the first port have a driver."""
    out = fs.each_vf(document, driver="", in_use="")
    for index in indices_of_pf0:
        out["pfs"][0]["vfs"][index]["driver"] = "vfio-pci"
    return out


def eswitch(document: Document, port: int, **values: Any) -> Document:
    out = copy.deepcopy(document)
    out["pfs"][port]["eswitch"].update(values)
    return out


def firmware(error: str = "", **values: tuple[str, str]) -> dict[str, Any]:
    """The firmware of both ports."""
    return {"firmware": {address: fs.firmware(error, **values) for address in (PF0, PF1)}}


OK = fs.healthy()
ROCE = lag(OK, type="roce")
OFF = lag(OK, state="disabled", type=None)
UNBOUND = bound_only(OK)
LEGACY = fs.each_pf(OK, eswitch={"mode": "legacy", "steering": "dmfs", "multiport": False})
NO_REP = fs.each_vf(OK, representor="", representor_mtu=None, representor_master="")
FOREIGN = fs.changed(OK, "bonds", 0, "slaves", value=["ens0f0np0", "ens0f1np1", "eno1"])
TWO = fs.changed(OK, "pfs", 1, "card", value="0000:31:00")
NOBODY = fs.each_vf(fs.changed(OK, "bridges", value=[]), representor_master="")
OTHER_UNIT = fs.changed(OK, "units", "sriov-config.service", value="active")
GUARD = fs.changed(OK, "guard", value={"armed": True, "deadline": "21:59"})
FAR = [
    made.function("0000:81:00.0", "0x030200", 1, vendor="0x10de"),
    made.function("0000:18:00.0", "0x030200", 0),
]
FAILED = fs.changed(OK, "units", "nearmetal-fabric-late.service", value="failed")
FILES = fs.changed(OK, "bonds", 0, "owner_files", value=["/etc/systemd/network/ens0f0.network"])
MANAGED = fs.changed(OK, "management", value=["bond0", "ens0f0np0"])
DARK = fs.changed(OK, "pfs", 1, "carrier", value=False)
ALL_DARK = fs.changed(
    fs.each_pf(lag(UNBOUND, state="disabled", type=None), carrier=False),
    "bonds",
    0,
    "mii_status",
    value="down",
)

CASES: list[tuple[str, Document, dict[str, Any], str, set[str]]] = [
    ("lag-vfs-bound", bound_only(ROCE, 3, 5), {},
     "VFs 3 and 5 of 0000:17:00.0 (ens0f0np0) were bound before LAG became active: type is roce, not switchdev", set()),
    ("lag-vfs-bound", bound_only(ROCE, 7), {}, "VF 7 of 0000:17:00.0 (ens0f0np0) was bound before", set()),
    ("lag-vfs-bound", bound_only(OFF, 0, 1, 2), {}, "VFs 0-2 of 0000:17:00.0 (ens0f0np0) are bound while LAG is disabled", set()),
    ("lag-type", lag(UNBOUND, type="roce"), {}, "its type is roce, not switchdev", set()),
    ("lag-type", lag(NO_REP | {"pfs": LEGACY["pfs"]}, type="roce"), {}, "is legacy", {"lag-legacy-vfs"}),
    ("lag-bond-mode", fs.changed(OK, "bonds", 0, "mode", value="balance-rr 0"), {}, "bond0 has mode balance-rr 0", set()),
    ("lag-foreign-slaves", FOREIGN, {}, "bond0 also holds eno1", set()),
    ("lag-two-cards", TWO, {}, "(ens0f1np1) on card 0000:31:00", set()),
    ("lag-eswitch-mixed", eswitch(OK, 1, mode="legacy"), {}, "(ens0f0np0) is switchdev", {"lag-legacy-vfs"}),
    ("lag-legacy-vfs", lag(LEGACY, state="disabled", type=None), {}, "has 16 VFs and is in legacy mode, in bond0", set()),
    ("lag-too-many-vfs", OK, firmware(NUM_OF_VFS=("65", "65")), "NUM_OF_VFS is 65; it has 16 VFs", set()),
    ("lag-too-many-vfs", OK, firmware(NUM_OF_VFS=("16", "127")), "127 after the next reset", {"firmware-waits"}),
    ("lag-too-many-vfs", fs.each_pf(OK, sriov_total=127), {}, "NUM_OF_VFS is 127; it has 16 VFs", set()),
    ("lag-multiport", eswitch(OK, 0, multiport=True), {}, "esw_multiport is on at 0000:17:00.0", set()),
    ("lag-no-carrier", ALL_DARK, {}, "the bond's MII status is down; no carrier on 0000:17:00.0 (ens0f0np0), 0000:17", set()),
    ("lag-inactive", lag(UNBOUND, state="disabled", type=None), {}, "LAG of bond0 is disabled; the bond's MII status is up", set()),
    ("port-no-carrier", DARK, {}, "0000:17:00.1 (ens0f1np1) of bond0 has no carrier", set()),
    ("vf-not-forwarded", NOBODY, {}, "representors of VFs 0-15 of 0000:17:00.0 (ens0f0np0) are in no bridge", set()),
    ("vf-not-forwarded", fs.changed(fs.changed(OK, "bridges", 0, "ports", 0, "name", value="x"), "bonds", 0, "master", value=""), {},
     "are in br0, its uplink bond0 is not", set()),
    ("vf-not-forwarded", fs.changed(fs.ovs(OK), "ovs", "bridges", value=[]), {}, "VFs 0-15 of 0000:17:00.1", set()),
    ("vf-not-forwarded", fs.changed(OK, "pfs", 0, "vfs", 2, "representor_up", value=False), {}, "representors of VF 2 of", set()),
    ("other-owner", fs.changed(OK, "other_owners", value={"sriov-network-operator": "/etc/sriov-operator/pci"}), {},
     "sriov-network-operator manages SR-IOV here (/etc/sriov-operator/pci)", set()),
    ("hw-tc-offload-off", fs.changed(OK, "pfs", 0, "hw_tc_offload", value=False), {}, "ethtool -k ens0f0np0: hw-tc-offload", set()),
    ("ovs-no-hw-offload", fs.ovs(OK, hw_offload=False), {}, "br0 forwards for 32 representors", set()),
    ("mtu-mismatch", fs.changed(OK, "bonds", 0, "mtu", value=1500), {}, "(ens0f1np1) 9000, bond0 1500", set()),
    ("mtu-mismatch", fs.changed(OK, "pfs", 1, "vfs", 4, "representor_mtu", value=1500), {}, "representors of VF 4 1500", set()),
    ("mtu-mismatch", fs.changed(OK, "pfs", 1, "vfs", 9, "mtu", value=1500), {}, "(ens0f1np1) 9000, VF 9 1500", set()),
    ("vf-far-from-gpu", OK, {"pci": FAR}, "GPU 0000:81:00.0 is on node 1, VFs are on node 0 only", set()),
    ("firmware-waits", OK, firmware(ATS_ENABLED=("False(0)", "True(1)"), SRIOV_EN=("1", "True(1)")),
     "0000:17:00.0: ATS_ENABLED False(0), next True(1)", set()),
    ("firmware-lockdown", OK, {**firmware("Operation not permitted"), "lockdown": "integrity"},
     "mstconfig 0000:17:00.0: Operation not permitted (/sys/kernel/security/lockdown is integrity)", set()),
    ("bios-sriov-off", fs.changed(OK, "pfs", 0, "sriov_total", value=0), firmware(SRIOV_EN=("True(1)",) * 2, NUM_OF_VFS=("16",) * 2),
     "NUM_OF_VFS 16, sriov_totalvfs is 0", set()),
    ("port-renamed", FILES, {"files": {"/etc/systemd/network/ens0f0.network": "[Match]\nName=ens0f0\n"}},
     "/etc/systemd/network/ens0f0.network names ens0f0, which is now ens0f0np0 (0000:17:00.0)", set()),
    ("other-owner", OTHER_UNIT, {}, "sriov-config.service is active", set()),
    ("other-owner", OK, {"desired": {"bonds": [{"name": "bond0", "owner": "NetworkManager"}]}},
     "bond0 is to belong to NetworkManager, and networkd has it", set()),
    ("guard-armed", GUARD, {}, "nearmetal-guard is armed, it fires at 21:59", set()),
    ("fabric-unit-failed", FAILED, {}, "late.service is failed", set()),
    ("management-in-lag", MANAGED, {}, "runs over bond0, ens0f0np0", set()),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "document", "more", "evidence", "with_it"),
    CASES,
    ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)],
)
def test_a_fault_is_found_and_nothing_else(
    rule: str, document: Document, more: dict[str, Any], evidence: str, with_it: set[str]
) -> None:
    told = found(document, **more)
    assert evidence in told[rule]["evidence"]
    assert set(told) == {rule} | with_it
    assert all(told[rule][key] for key in ("title", "cause", "cost", "source", "fix", "lines"))
    assert told[rule]["severity"] in fabric_explain.SEVERITIES


def test_every_rule_has_a_case() -> None:
    assert {case[0] for case in CASES} == {rule.id for rule in fabric_explain.RULES}


@pytest.mark.parametrize(
    "document",
    [OK, fs.ovs(OK), fs.healthy(0), NO_REP, fs.fabric([]), fs.gpu_host()["fabric"], fs.lab_host()["fabric"]],
)
def test_what_is_right_is_not_told(document: Document) -> None:
    assert found(document) == {}


def test_forwarding_that_somebody_else_does_is_no_fault() -> None:
    wanted = Desired(
        bonds=(DesiredBond("bond0", (PF0, PF1), forwarding=Forwarding("external", owner="ovn-kubernetes")),)
    )
    assert found(NOBODY, desired=asdict(wanted)) == {}


def test_a_bond_that_never_carries_vfs_may_be_roce() -> None:
    document = lag(fs.changed(fs.healthy(0), "bridges", value=[]), type="roce")
    for one in document["pfs"]:
        one["eswitch"]["mode"] = "legacy"
    assert found(document) == {}
    assert set(found(document, desired=asdict(Desired(bonds=(DesiredBond("bond0", (PF0, PF1)),))))) == {
        "lag-type"
    }
    plain = Desired(bonds=(DesiredBond("bond0", (PF0, PF1), kind="plain"),))
    assert found(document, desired=asdict(plain)) == {}


def test_open_vswitch_that_could_not_be_asked_is_no_evidence() -> None:
    assert found(fs.changed(fs.ovs(OK), "ovs", value=None)) == {}


@pytest.mark.parametrize(
    "document", [fs.gpu_host(), fs.lab_host(), fs.broken_host()], ids=["gpu", "lab", "broken"]
)
def test_the_builders_make_valid_documents(document: Document) -> None:
    TypeAdapter(State).validate_python(document)


def test_a_card_whose_ports_say_the_same_is_told_once() -> None:
    told = found(OK, **firmware(ATS_ENABLED=("False(0)", "True(1)")))
    assert len(told["firmware-waits"]["lines"]) == 1
    document = {**fs.gpu_host(), "firmware": firmware(NUM_OF_VFS=("16", "8"))["firmware"]}
    assert [one["id"] for one in fabric_explain.state_findings(document)] == ["firmware-waits"]


def test_numbers_are_read_whole() -> None:
    assert [number(v) for v in (18, "18", "True(1)", "False(0)", True, "0x41", "8 ", "many", None)] == [
        18, 18, 1, 0, 1, 65, 8, None, None,
    ]  # fmt: skip


def test_indices_as_people_write_them() -> None:
    def said(*numbers: int) -> str:
        return indices({"index": n} for n in numbers)

    assert [said(3, 5), said(0, 1, 2, 5, 7), said(4), said(4, 5), said()] == [
        "3 and 5",
        "0-2, 5 and 7",
        "4",
        "4 and 5",
        "",
    ]


def test_a_problem_message_gets_the_worst_finding_about_it() -> None:
    told = fabric_explain.findings(fs.changed(bound_only(ROCE, 3, 5), "bonds", 0, "mtu", value=1500))
    said = fabric_explain.about(told, PF1)
    assert said.startswith("VFs were bound before VF LAG was active: VFs 3 and 5")
    assert ". Fix: unbind these VFs" in said
    assert fabric_explain.about(told, "0000:99:00.0") == ""


def test_the_audit_has_them_with_cost_and_fix() -> None:
    document = fs.broken_host()
    told = {one["id"]: one for one in audit.audit(document)["findings"]}  # type: ignore[arg-type]
    assert told["lag-vfs-bound"]["evidence"].startswith("VFs 3 and 5 of 0000:17:00.0")
    assert told["lag-vfs-bound"]["severity"] == "high"
    assert told["lag-vfs-bound"]["cause"] and told["lag-vfs-bound"]["cost"] and told["lag-vfs-bound"]["fix"]
    assert "lag-vfs-bound" not in {one["id"] for one in audit.audit(document, "pinned_vm")["findings"]}  # type: ignore[arg-type]


def test_without_the_section_the_audit_says_that_it_was_not_checked() -> None:
    result = audit.audit(made.lab_host("n1", converged=True))  # type: ignore[arg-type]
    ours = {rule.id for rule in fabric_explain.RULES}
    assert ours <= {one["id"] for one in result["not_checked"]}
    assert not ours & {one["id"] for one in result["findings"]} and not ours & set(result["passed"])


@pytest.mark.parametrize(
    ("unread", "not_checked", "passed"),
    [
        ([], {"firmware-waits", "firmware-lockdown", "bios-sriov-off"}, {"lag-type", "guard-armed"}),
        ([{"section": "fabric.lag", "reason": "Permission denied"}], {"lag-type", "lag-inactive"}, {"guard-armed"}),
        ([{"section": "fabric", "reason": "devlink: command not found"}], {"lag-type", "hw-tc-offload-off"}, set()),
    ],
)
def test_the_audit_passes_nothing_that_was_not_read(
    unread: list[dict[str, str]], not_checked: set[str], passed: set[str]
) -> None:
    document = fs.changed(fs.gpu_host(), "fabric", "pfs", 0, "mtu", value=1500)
    result = audit.audit({**document, "unread": unread})  # type: ignore[typeddict-item]
    assert "mtu-mismatch" in {one["id"] for one in result["findings"]}  # what was seen counts nevertheless
    assert not_checked <= {one["id"] for one in result["not_checked"]}
    assert passed <= set(result["passed"]) and not not_checked & set(result["passed"])


def test_a_host_without_sriov_ports_passes() -> None:
    document = {**fs.gpu_host(cards=0, gpus=0), "fabric": fs.fabric([])}
    ours = {rule.id for rule in fabric_explain.RULES}
    assert ours <= set(audit.audit(document)["passed"])  # type: ignore[arg-type]


@given(st.data())
def test_nothing_read_is_nothing_said_and_no_error(data: st.DataObject) -> None:
    """Whatever of the document could not be read: no exception, and a healthy host stays without findings."""
    document = fs.healthy(4)
    for one in document["pfs"]:
        for key in data.draw(st.sets(st.sampled_from(sorted(set(one) - {"address"})))):
            one[key] = None
        for function in one["vfs"] or ():
            for key in data.draw(st.sets(st.sampled_from(sorted(set(function) - {"index", "address"})))):
                function[key] = None
    for one in document["bonds"]:
        for key in data.draw(st.sets(st.sampled_from(sorted(set(one) - {"name"})))):
            one[key] = None
    for key in data.draw(st.sets(st.sampled_from(sorted(set(document) - {"pfs", "bonds", "bridges"})))):
        document[key] = None
    assert found(document) == {}
