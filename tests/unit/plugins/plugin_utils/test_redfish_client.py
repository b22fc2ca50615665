"""The Redfish client: sessions, repeated requests, refusals, and what it says of them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import small_bmc
from ansible_collections.nearmetal.rack.plugins.plugin_utils import redfish
from ansible_collections.nearmetal.rack.plugins.plugin_utils.redfish import Access, Bmc, BmcError
from ansible_collections.nearmetal.rack.plugins.plugin_utils.redfish.power import Power
from small_bmc import BIOS, PASSWORD, ROOT, SESSIONS, SETTINGS, SYSTEM, SmallBmc, hang_up, status


@pytest.fixture
def bmc() -> Iterator[SmallBmc]:
    with small_bmc.serving(SmallBmc()) as made:
        yield made


def access(bmc: SmallBmc, **more: Any) -> Access:
    return Access(**{"baseuri": bmc.url, "username": "admin", "password": PASSWORD, "timeout": 5.0, **more})


def connect(bmc: SmallBmc, slept: list[float] | None = None, **more: Any) -> Bmc:
    return Bmc(access(bmc, **more), sleep=(slept if slept is not None else []).append)


def test_one_session_one_connection_and_logout(bmc: SmallBmc) -> None:
    with connect(bmc) as client:
        assert client.get(BIOS)["Attributes"]["Smt"] == "Enabled"
        assert len(bmc.sessions) == 1
    assert not bmc.sessions and bmc.connections == 1
    assert bmc.log == [("GET", ROOT), ("POST", SESSIONS), ("GET", BIOS), ("DELETE", bmc.log[-1][1])]


def test_logs_out_after_an_error(bmc: SmallBmc) -> None:
    with pytest.raises(BmcError, match="answers 404 to GET /redfish/v1/Nothing"), connect(bmc) as client:
        client.get("/redfish/v1/Nothing")
    assert not bmc.sessions


def test_basic_authentication_where_there_are_no_sessions(bmc: SmallBmc) -> None:
    bmc.resources[ROOT]["Links"] = {}
    with connect(bmc) as client:
        client.get(BIOS)
    assert ("POST", SESSIONS) not in bmc.log and bmc.sent[-1][2]["authorization"].startswith("Basic ")
    bmc.resources[ROOT]["Links"] = {"Sessions": {"@odata.id": SESSIONS}}
    bmc.faults = [status(405, "POST", SESSIONS)]
    with connect(bmc) as client:
        client.get(BIOS)
    assert bmc.sent[-1][2]["authorization"].startswith("Basic ")


def test_wrong_password_is_tried_once_and_not_shown(bmc: SmallBmc) -> None:
    with pytest.raises(BmcError) as caught, connect(bmc, password="wrong-Word"):
        pass
    assert caught.value.kind == "credentials"
    assert "bios_username and bios_password" in str(caught.value) and "wrong-Word" not in str(caught.value)
    assert bmc.log == [("GET", ROOT), ("POST", SESSIONS)]
    assert "wrong-Word" not in repr(access(bmc, password="wrong-Word"))


def test_a_session_that_ended_is_begun_anew(bmc: SmallBmc) -> None:
    with connect(bmc) as client:
        bmc.sessions.clear()
        client.get(BIOS)
        assert len(bmc.sessions) == 1
    assert not bmc.sessions


@pytest.mark.parametrize("code", [500, 502, 503, 504, 429])
def test_reading_is_repeated(bmc: SmallBmc, code: int) -> None:
    slept: list[float] = []
    bmc.faults = [status(code, "GET", BIOS), status(code, "GET", BIOS)]
    with connect(bmc, slept) as client:
        client.get(BIOS)
    assert len(slept) == 2 and slept[0] < slept[1]


def test_retry_after(bmc: SmallBmc) -> None:
    slept: list[float] = []
    bmc.faults = [status(503, "GET", BIOS, {"Retry-After": "7"}), status(429, "GET", BIOS, {"Retry-After": "999"})]
    with connect(bmc, slept) as client:
        client.get(BIOS)
    assert slept == [7.0, 60.0]


def test_repeating_ends(bmc: SmallBmc) -> None:
    slept: list[float] = []
    bmc.faults = [status(503, "GET", BIOS) for _ in range(9)]
    with pytest.raises(BmcError, match="answers 503") as caught, connect(bmc, slept) as client:
        client.get(BIOS)
    assert caught.value.kind == "busy" and len(slept) == 3


def test_a_connection_that_ends_is_made_anew_for_reading_only(bmc: SmallBmc) -> None:
    bmc.faults = [hang_up("GET", BIOS)]
    with connect(bmc) as client:
        client.get(BIOS)
        bmc.faults = [hang_up("PATCH", SETTINGS)]
        with pytest.raises(BmcError) as caught:
            client.patch(SETTINGS, {"Attributes": {}}, 'W/"1"')
    assert caught.value.kind == "unreachable"
    assert [m for m, _ in bmc.log].count("PATCH") == 1


def test_a_reset_is_not_repeated_after_a_server_error(bmc: SmallBmc) -> None:
    bmc.faults = [status(500, "POST", f"{SYSTEM}/Actions/ComputerSystem.Reset")]
    with pytest.raises(BmcError), connect(bmc) as client:
        client.fetch("POST", f"{SYSTEM}/Actions/ComputerSystem.Reset", {"ResetType": "ForceRestart"})
    assert bmc.log.count(("POST", f"{SYSTEM}/Actions/ComputerSystem.Reset")) == 1


def test_etag_of_another_writer(bmc: SmallBmc) -> None:
    with connect(bmc) as client:
        client.patch(SETTINGS, {"Attributes": {"Smt": "Disabled"}}, 'W/"0"')
    patches = [h["if-match"] for m, _p, h, _b in bmc.sent if m == "PATCH"]
    assert patches == ['W/"0"', 'W/"1"']


def test_etag_is_asked_for(bmc: SmallBmc) -> None:
    with connect(bmc) as client:
        client.patch(SETTINGS, {"Attributes": {"Smt": "Disabled"}})
    patches = [h.get("if-match") for m, _p, h, _b in bmc.sent if m == "PATCH"]
    assert patches == [None, 'W/"1"']


def test_redirect(bmc: SmallBmc) -> None:
    bmc.faults = [status(308, "GET", ROOT, {"Location": "https://elsewhere.example/redfish/v1/?token=1"})]
    match = "redirects /redfish/v1/ to https://elsewhere.example/redfish/v1/: refused"
    with pytest.raises(BmcError, match=match) as caught, connect(bmc):
        pass
    assert caught.value.kind == "redirect" and "token=1" not in str(caught.value)
    assert bmc.log == [("GET", ROOT)]


def test_a_link_to_elsewhere_gets_no_token(bmc: SmallBmc) -> None:
    with pytest.raises(BmcError, match="which is not on it"), connect(bmc) as client:
        client.get("http://elsewhere.example/redfish/v1/Systems")
    with connect(bmc) as client:
        assert client.get(bmc.url + BIOS)


def test_no_proxy_of_the_environment(bmc: SmallBmc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    with connect(bmc) as client:
        client.get(BIOS)


def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    slept: list[float] = []
    nobody = Bmc(Access(f"http://127.0.0.1:{port}"), slept.append)
    with pytest.raises(BmcError, match="is not reached: Connection refused"), nobody:
        pass
    assert len(slept) == 3


def test_silent(bmc: SmallBmc) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        to = Access(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.2)
        with pytest.raises(BmcError, match="says nothing for"), Bmc(to):
            pass


def test_no_redfish_there(bmc: SmallBmc) -> None:
    bmc.resources[ROOT] = []  # type: ignore[assignment]
    with pytest.raises(BmcError, match="is no Redfish resource"), connect(bmc):
        pass


def test_trusted_untrusted_and_for_another_name(tmp_path: Path) -> None:
    pem = small_bmc.certificate(tmp_path)
    with small_bmc.serving(SmallBmc(), pem) as bmc:
        with connect(bmc, ca_path=str(pem)) as client:
            client.get(BIOS)
        with connect(bmc, validate_certs=False) as client:
            client.get(BIOS)
        with pytest.raises(BmcError, match="is not trusted .self-signed certificate.*bios_ca_path") as caught, connect(bmc):
            pass
        assert caught.value.kind == "certificate"
    other = small_bmc.certificate(tmp_path, "bmc.example")
    with small_bmc.serving(SmallBmc(), other) as bmc:
        match = "not trusted.*not valid for"
        with pytest.raises(BmcError, match=match), connect(bmc, ca_path=str(other)):
            pass
    nowhere = Access("https://127.0.0.1:1", ca_path="/nowhere")
    with pytest.raises(BmcError, match="bios_ca_path='/nowhere' cannot be used"), Bmc(nowhere):
        pass


def test_sushy_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, f"{redfish.__name__}.transport", None)
    monkeypatch.delattr(redfish, "transport", raising=False)
    with pytest.raises(BmcError, match="Python package sushy, which .* lacks"), Bmc(Access("https://127.0.0.1:1")):
        pass


@pytest.mark.parametrize("text, found", [
    ("10.0.0.1", "https://10.0.0.1"), ("https://bmc.example:8443/redfish/v1/", "https://bmc.example:8443"),
    ("http://[fd00::1]:80", "http://[fd00::1]:80"),
])  # fmt: skip
def test_addresses(text: str, found: str) -> None:
    assert redfish.access({"baseuri": text}).baseuri == found


@pytest.mark.parametrize("text", ["", "ftp://x", "https://", "https://x/other", "https://u:p4ss@x", "https://x:port"])
def test_no_addresses(text: str) -> None:
    with pytest.raises(BmcError, match="bios_baseuri") as caught:
        redfish.access({"baseuri": text})
    assert "p4ss" not in str(caught.value)


@pytest.mark.parametrize("path, name, value", [
    (SYSTEM, "Boot", ["Pxe"]), (BIOS, "@Redfish.Settings", "none"), (BIOS, "Attributes", None), (SYSTEM, "Actions", "none"),
    ("/redfish/v1/Systems", "Members", []), ("/redfish/v1/Systems", "Members", 7), (SETTINGS, "Attributes", [1]),
    (SYSTEM, "Bios", None), (BIOS, "@Redfish.Settings", {"SettingsObject": {"@odata.id": "/redfish/v1/Nothing"}}),
])  # fmt: skip
def test_a_bmc_that_sends_nonsense_is_an_error_of_its_own(bmc: SmallBmc, path: str, name: str, value: Any) -> None:
    bmc.resources[path][name] = value
    options = {"baseuri": bmc.url, "username": "admin", "password": PASSWORD, "timeout": 5}
    document = redfish.read_bmc(options, sleep=lambda s: None)
    assert document["error"].startswith(bmc.url) or document["bios"]["current"], document
    assert not bmc.sessions


def test_what_is_read(bmc: SmallBmc) -> None:
    registries = redfish.Registries()
    options = {"baseuri": bmc.url, "username": "admin", "password": PASSWORD, "timeout": 5}
    document = redfish.read_bmc(options, lambda options, found: True, registries)
    assert document["system"] == SYSTEM and document["health"] == "OK"
    assert document["bios"]["current"] == {"Smt": "Enabled", "AdminPassword": "***", "Cores": 8}
    assert document["bios"]["settings_etag"] == 'W/"1"' and document["bios"]["apply_times"] == ["OnReset"]
    assert document["registry"]["Smt"]["values"] == ["Enabled", "Disabled"]
    assert document["registry"]["Cores"]["max"] == 8
    bmc.log.clear()
    again = redfish.read_bmc(options, lambda options, found: True, registries)
    assert again["registry"] is document["registry"] and len(bmc.log) == 7


def test_power_without_a_power_cycle(bmc: SmallBmc) -> None:
    with connect(bmc) as client:
        power = Power(client, sleep=lambda s: None)
        assert power.set("cycle") and power.state == "On"
        kinds = [b["ResetType"] for m, _p, _h, b in bmc.sent if m == "POST" and "Reset" in _p]
        assert kinds == ["ForceOff", "On"]
        with pytest.raises(BmcError, match="offers None, Pxe"):
            power.boot_once("Cd")
        assert power.boot_once("Pxe") and not power.boot_once("Pxe")
