"""The test BMC over HTTPS, as a client sees it: authentication, settings, jobs, power, and its faults."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from bmc_client import ASKED, PATHS, WHEN, Client, Rig

from nearmetal.bmc import resources
from nearmetal.bmc.server import Faults

SESSIONS = "/redfish/v1/SessionService/Sessions"
PICKY = ("lenovo", "nvidia_dgx")


@pytest.fixture(scope="module")
def rigs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Rig]]:
    """A server for each vendor, all with one certificate."""
    folder = tmp_path_factory.mktemp("bmc")
    made = {vendor: Rig(vendor, folder) for vendor in PATHS}
    yield made
    for rig in made.values():
        rig.client.close()
        rig.server.stop()


@pytest.fixture(params=PATHS)
def each(request: pytest.FixtureRequest, rigs: dict[str, Rig]) -> Rig:
    return rigs[request.param].fresh()


@pytest.fixture
def dell(rigs: dict[str, Rig]) -> Rig:
    return rigs["dell"].fresh()


@pytest.fixture
def hpe(rigs: dict[str, Rig]) -> Rig:
    return rigs["hpe"].fresh()


# -- settings


def test_vendor_paths_pending_and_reset(each: Rig) -> None:
    bios, last = PATHS[each.vendor]
    asked = ASKED[each.vendor]
    assert each.client.get(resources.system_path(each.machine))["Bios"] == {"@odata.id": bios}
    assert each.client.get(bios)["@Redfish.Settings"]["SettingsObject"] == {"@odata.id": f"{bios}/{last}"}
    before = each.attributes(bios)
    early = each.vendor == "dell"
    assert each.submit(**(WHEN if early else {})).status == (202 if early else 200)
    assert each.attributes(each.settings).items() >= asked.items()
    assert (each.attributes(bios) == before) != early
    assert each.reset().status == 204
    assert each.attributes(bios) == {**before, **asked}
    assert not early or each.attributes(each.settings) == {}


def test_refusals_have_messages(each: Rig) -> None:
    name = next(iter(ASKED[each.vendor]))
    answer = each.ask("PATCH", each.settings, {"Attributes": {name: 7, "NoSuch": 1}}, each.match())
    assert answer.status == 400
    infos = answer.document["error"]["@Message.ExtendedInfo"]
    assert [i["MessageId"] for i in infos] == ["Base.1.12.PropertyValueTypeError", "Base.1.12.PropertyUnknown"]
    assert infos[0]["MessageArgs"] == ["7", name] and infos[0]["RelatedProperties"] == [f"#/Attributes/{name}"]
    assert infos[0]["MessageSeverity"] == "Warning" and name in infos[0]["Message"]
    assert each.machine.waiting == {}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "MalformedJSON"), (b"[]", "MalformedJSON"), ({}, "PropertyMissing"), ({"Attributes": {}}, "PropertyMissing"),
        ({"Attributes": ["ProcSMT"]}, "PropertyMissing"), ({"Attributes": {"ProcSMT": "Disabled"}, "Id": "x"}, "PropertyUnknown"),
        ({"Attributes": {"ProcSMT": "Off"}}, "PropertyValueNotInList"),
        ({"Attributes": {"SecureBootStatus": "Enabled"}}, "PropertyNotWritable"),
        ({"Attributes": {"ProcSMT": "Disabled"}, **WHEN}, "PropertyUnknown"),
        ({"Attributes": {"ProcSMT": "Disabled"}, "@Redfish.SettingsApplyTime": "OnReset"}, "PropertyValueTypeError"),
    ],
)  # fmt: skip
def test_bodies_that_are_refused(hpe: Rig, body: Any, message: str) -> None:
    answer = hpe.ask("PATCH", hpe.settings, body)
    assert (answer.status, answer.messages) == (400, [message])
    assert hpe.machine.waiting == {}


def test_etag_of_another_writer(each: Rig) -> None:
    old = each.match()
    body = {"Attributes": ASKED[each.vendor]}
    assert each.ask("PATCH", each.settings, body, old).status == 200
    version, waiting = each.match(), dict(each.machine.waiting)
    assert version != old
    late = each.ask("PATCH", each.settings, body, old)
    assert (late.status, late.messages) == (412, ["PreconditionFailed"])
    assert each.match() == version and each.machine.waiting == waiting
    assert each.client.get(each.settings)["@odata.etag"] == version["If-Match"]
    assert each.ask("PATCH", each.settings, body, {"If-Match": "*"}).status == 200
    without = each.ask("PATCH", each.settings, body)
    assert without.status == (428 if each.vendor in PICKY else 200)


def test_current_settings_cannot_be_written(each: Rig) -> None:
    answer = each.ask("PATCH", PATHS[each.vendor][0], {"Attributes": ASKED[each.vendor]})
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
    assert each.machine.waiting == {}


def test_apply_time(each: Rig) -> None:
    times = each.client.get(PATHS[each.vendor][0])["@Redfish.Settings"].get("SupportedApplyTimes", [])
    assert ("OnReset" in times) == (each.vendor in ("dell", "lenovo"))
    wrong = each.submit(**{"@Redfish.SettingsApplyTime": {"ApplyTime": "Whenever"}})
    assert (wrong.status, wrong.messages) == (400, ["PropertyValueNotInList" if times else "PropertyUnknown"])
    right = each.submit(**WHEN)
    assert right.status == {"dell": 202, "lenovo": 200}.get(each.vendor, 400)


def test_factory_defaults(each: Rig) -> None:
    bios = PATHS[each.vendor][0]
    before = each.attributes(bios)
    each.submit(**(WHEN if each.vendor == "dell" else {}))
    each.reset()
    assert each.attributes(bios) != before
    assert each.ask("POST", each.client.get(bios)["Actions"]["#Bios.ResetBios"]["target"], {}).status == 200
    each.reset()
    assert each.attributes(bios) == before


def test_case_of_paths(each: Rig) -> None:
    for path in (PATHS[each.vendor][0], "/redfish/v1/Systems", SESSIONS):
        assert each.ask("GET", f"{path}/").status == 200
        assert each.ask("GET", path.lower()).status == (200 if each.vendor == "hpe" or path.islower() else 404)
    login = each.ask("POST", SESSIONS.lower(), {"UserName": "admin", "Password": "admin"}, login="")
    assert login.status == (201 if each.vendor == "hpe" else 401)


# -- Dell's jobs


def test_dell_patch_alone_applies_nothing(dell: Rig) -> None:
    assert dell.submit().status == 200
    dell.reset()
    assert dell.machine.current["LogicalProc"] == "Enabled"
    assert dell.attributes(dell.settings) == {"LogicalProc": "Disabled"}


@pytest.mark.parametrize("queue", [0, 1])
def test_dell_job_in_either_queue(dell: Rig, queue: int) -> None:
    jobs = resources.job_paths(dell.machine)[queue]
    body = {"TargetSettingsURI": dell.settings}
    early = dell.ask("POST", jobs, body)
    assert (early.status, early.messages) == (400, ["SYS009"])
    dell.submit()
    made = dell.ask("POST", jobs, body)
    job = made.headers["location"]
    assert made.status == 200 and job.startswith(f"{jobs}/JID_")
    assert dell.client.get(job)["JobState"] == "Scheduled"
    assert [m["@odata.id"] for m in dell.client.get(jobs)["Members"]] == [job]
    assert dell.ask("POST", jobs, body).messages == ["SYS011"]
    assert dell.submit().messages == ["SYS011"]
    dell.reset()
    assert dell.client.get(job)["JobState"] == "Completed" and dell.machine.current["LogicalProc"] == "Disabled"


def test_dell_patch_with_an_apply_time_makes_the_job(dell: Rig) -> None:
    answer = dell.submit(**WHEN)
    info = answer.document["error"]["@Message.ExtendedInfo"][0]
    assert (answer.status, info["MessageId"], info["MessageSeverity"]) == (202, "IDRAC.2.8.SYS053", "OK")
    job = answer.headers["location"]
    assert dell.ask("GET", f"{job.rpartition('/')[0]}?$expand=*($levels=1)").document["Members"][0]["JobState"] == "Scheduled"
    assert dell.ask("DELETE", job).status == 200
    assert dell.ask("DELETE", job).status == dell.ask("GET", job).status == 404
    dell.reset()
    assert dell.machine.current["LogicalProc"] == "Enabled"


def test_dell_clears_what_is_not_committed(dell: Rig) -> None:
    target = dell.client.get(dell.settings)["Actions"]["Oem"]["#DellManager.ClearPending"]["target"]
    dell.submit()
    assert dell.ask("POST", target, {}).status == 200
    assert dell.attributes(dell.settings) == {} and dell.attributes(PATHS["dell"][0])["LogicalProc"] == "Enabled"
    dell.submit(**WHEN)
    assert dell.ask("POST", target, {}).messages == ["SYS011"]


# -- boot and power


def test_boot_once(each: Rig) -> None:
    system = resources.system_path(each.machine)
    boot = {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}
    assert each.ask("PATCH", system, {"Boot": boot}).status == 200
    shown = each.client.get(system)["Boot"]
    assert shown.items() >= boot.items() and "Pxe" in shown["BootSourceOverrideTarget@Redfish.AllowableValues"]
    each.reset()
    after = each.client.get(system)["Boot"]
    assert (after["BootSourceOverrideTarget"], after["BootSourceOverrideEnabled"]) == ("None", "Disabled")


@pytest.mark.parametrize(
    ("body", "message", "word"),
    [
        ({"Boot": {"BootSourceOverrideTarget": "Floppy"}}, "PropertyValueNotInList", "Floppy"),
        ({"Boot": {"BootSourceOverrideEnabled": "Twice"}}, "PropertyValueNotInList", "Twice"),
        ({"Boot": {"BootSourceOverrideMode": "UEFI"}}, "PropertyUnknown", "BootSourceOverrideMode"),
        ({"Boot": "Pxe"}, "PropertyValueTypeError", "Pxe"),
        ({"PowerState": "Off"}, "PropertyNotWritable", "PowerState"),
        ({}, "PropertyMissing", "Boot"),
    ],
)
def test_bad_boot_source(hpe: Rig, body: Any, message: str, word: str) -> None:
    answer = hpe.ask("PATCH", resources.system_path(hpe.machine), body)
    assert (answer.status, answer.messages) == (400, [message])
    assert answer.document["error"]["@Message.ExtendedInfo"][0]["MessageArgs"][0] == word
    assert hpe.machine.boot == {"target": "None", "enabled": "Disabled"}


def test_power(each: Rig) -> None:
    system = resources.system_path(each.machine)
    for kind, state in (("ForceOff", "Off"), ("On", "On"), ("GracefulShutdown", "Off"), ("PowerCycle", "On")):
        assert kind in each.client.get(system)["Actions"]["#ComputerSystem.Reset"]["ResetType@Redfish.AllowableValues"]
        assert each.reset(kind).status == 204
        assert each.client.get(system)["PowerState"] == state
    assert each.reset("Explode").messages == ["ActionParameterValueNotInList"]
    assert each.ask("POST", f"{system}/Actions/ComputerSystem.Reset", {}).messages == ["ActionParameterMissing"]
    assert each.machine.boots == 2


# -- sessions


def test_session(each: Rig) -> None:
    login = each.ask("POST", SESSIONS, {"UserName": "admin", "Password": "admin"}, login="")
    token, place = {"x-AUTH-token": login.headers["x-auth-token"]}, login.headers["location"]
    assert login.status == 201 and login.document["@odata.id"] == place and "admin" not in place
    assert each.ask("GET", each.settings, headers=token, login="").status == 200
    assert each.ask("GET", place, headers=token, login="").document["UserName"] == "admin"
    assert [m["@odata.id"] for m in each.client.get(SESSIONS)["Members"]] == [place]
    assert each.ask("DELETE", place, headers=token, login="").status == 204
    gone = each.ask("GET", each.settings, headers=token, login="")
    assert (gone.status, gone.messages) == (401, ["NoValidSession"])
    assert each.server.service.sessions == 0 and each.ask("DELETE", place).status == 404


@pytest.mark.parametrize("login", ["", "admin:wrong", "root:admin", "admin", "admin:admin:", "ädmin:admin"])
def test_no_entry(hpe: Rig, login: str) -> None:
    answer = hpe.ask("GET", hpe.settings, login=login)
    assert answer.status == 401 and answer.headers["www-authenticate"].startswith("Basic ")
    assert hpe.ask("PATCH", hpe.settings, {"Attributes": ASKED["hpe"]}, login=login).status == 401
    assert hpe.machine.waiting == {}
    assert hpe.ask("GET", "/redfish/v1/", login=login).status == 200


@pytest.mark.parametrize("body", [{}, {"UserName": "admin", "Password": "Admin"}, {"UserName": None, "Password": None}])
def test_wrong_credentials_make_no_session(hpe: Rig, body: Any) -> None:
    answer = hpe.ask("POST", SESSIONS, body)
    assert answer.status == 401 and "x-auth-token" not in answer.headers
    assert hpe.server.service.sessions == 0


@pytest.mark.parametrize("value", ["Basic !!!", "Bearer YWRtaW46YWRtaW4=", "Basic", "Basic /w=="])
def test_headers_that_are_no_login(hpe: Rig, value: str) -> None:
    assert hpe.ask("GET", hpe.settings, headers={"Authorization": value}, login="").status == 401


def test_a_bad_token_counts_more_than_a_good_password(hpe: Rig) -> None:
    assert hpe.ask("GET", hpe.settings, headers={"X-Auth-Token": "0" * 32}).status == 401


def test_sessions_are_few(hpe: Rig) -> None:
    body = {"UserName": "admin", "Password": "admin"}
    made = [hpe.ask("POST", SESSIONS, body) for _ in range(17)]
    assert [a.status for a in made] == [201] * 16 + [503]
    assert made[-1].messages == ["SessionLimitExceeded"]
    hpe.ask("DELETE", made[0].headers["location"])
    assert hpe.ask("POST", SESSIONS, body).status == 201


# -- faults


def test_statuses_of_the_next_answers(hpe: Rig) -> None:
    hpe.server.faults.retry_after = 7
    hpe.server.faults.fail_next(2, 503)
    answers = [hpe.ask("GET", hpe.settings) for _ in range(3)]
    assert [a.status for a in answers] == [503, 503, 200]
    assert [a.headers.get("retry-after") for a in answers] == ["7", "7", None]
    assert [status for _m, _p, status in hpe.server.requests] == [503, 503, 200]


def test_reset_connections(hpe: Rig) -> None:
    hpe.server.faults.resets = 1
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        hpe.ask("PATCH", hpe.settings, {"Attributes": ASKED["hpe"]})
    assert hpe.machine.waiting == {}
    assert hpe.ask("GET", hpe.settings).status == 200


def test_dies_after_the_patch(hpe: Rig) -> None:
    hpe.server.faults.die_after_patch = True
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        hpe.ask("PATCH", hpe.settings, {"Attributes": ASKED["hpe"]})
    assert hpe.machine.waiting == ASKED["hpe"] and hpe.server.faults.dead
    hpe.server.faults.revive()
    assert hpe.attributes(hpe.settings).items() >= ASKED["hpe"].items()


@pytest.mark.parametrize("fault", [{"hang": True}, {"slow_s": 30.0}])
def test_slow_and_silent(hpe: Rig, fault: dict[str, Any]) -> None:
    impatient = Client(hpe.server.url, hpe.server.ca_path, timeout=0.2)
    vars(hpe.server.faults).update(fault)
    with pytest.raises(TimeoutError):
        impatient.ask("GET", hpe.settings)
    hpe.server.faults.revive()
    hpe.server.faults = Faults()
    assert hpe.ask("GET", hpe.settings).status == 200, "one slow answer holds up the others"
    impatient.close()


def test_redirect_and_stale_etag(hpe: Rig) -> None:
    hpe.server.faults.redirect = "https://elsewhere.example"
    away = hpe.ask("GET", hpe.settings)
    assert (away.status, away.headers["location"]) == (302, f"https://elsewhere.example{hpe.settings}")
    hpe.server.faults.redirect, hpe.server.faults.stale_etag = "", True
    assert hpe.submit().status == 412
    assert hpe.submit().status == 200, "the wrong ETag is sent once"


def test_an_error_of_the_model_is_an_answer(hpe: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hpe.machine, "shown", lambda: 1 / 0)
    answer = hpe.ask("GET", PATHS["hpe"][0])
    assert answer.status == 500 and answer.messages == ["InternalError"]


def test_of_two_writers_with_one_etag_one_is_refused(hpe: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    both, submit, statuses = threading.Barrier(2), hpe.machine.submit, []

    def slowly(*words: Any) -> Any:
        time.sleep(0.1)  # time for the other to read the same version
        return submit(*words)

    def write(tag: dict[str, str]) -> None:
        client = Client(hpe.server.url, hpe.server.ca_path)
        both.wait(20)
        statuses.append(client.ask("PATCH", hpe.settings, {"Attributes": ASKED["hpe"]}, tag).status)
        client.close()

    monkeypatch.setattr(hpe.machine, "submit", slowly)
    threads = [threading.Thread(target=write, args=(hpe.match(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(statuses) == [200, 412]
