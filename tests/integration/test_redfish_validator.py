"""The test BMC is a Redfish service: DMTF's protocol validator says so, and a walk over all its resources.

DMTF has two validators. The *protocol* validator (DSP0266: methods, headers, statuses, sessions, OData documents) needs
nothing from outside and runs here as it is. The *service* validator compares every property with the schemas of DSP8010,
which it downloads, and which no package brings: it does not run here. `docs/testing.md` has the command for where the
schemas are at hand. In its place `test_walk` and what follows it check what DSP0266 says of any resource; they were written
for this project and check no property against a schema.
"""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bmc_client import ASKED, PATHS, WHEN, Answer, Client, Rig

ROOT = "/redfish/v1/"
VERSIONED = re.compile(r"#(\w+)\.v\d+_\d+_\d+\.\1")
COLLECTION = re.compile(r"#(\w+Collection)\.\1")
# The search for services in the network is left out: it waits for seconds, and goes to machines that are none of ours.
VALIDATOR = (
    "import sys; from redfish_protocol_validator import console_scripts, utils; "
    "utils.discover_ssdp = lambda *_, **__: {}; sys.argv[0] = 'rf_protocol_validator'; console_scripts.main()"
)
PROMISED = (
    "PROTO_STD_URIS_SUPPORTED", "PROTO_HTTP_UNSUPPORTED_METHODS", "PROTO_ETAG_ON_GET_ACCOUNT", "REQ_GET_METADATA_ODATA_NO_AUTH",
    "REQ_HEADERS_ODATA_VERSION", "REQ_POST_CREATE_TO_MEMBERS_PROP", "RESP_HEADERS_ALLOW_GET_OR_HEAD",
    "RESP_HEADERS_LINK_REL_DESCRIBED_BY", "RESP_ODATA_METADATA_ENTITY_CONTAINER", "SEC_PRIV_SUPPORT_PREDEFINED_ROLES",
    "SEC_READ_REQUIRES_AUTH", "SEC_WRITE_REQUIRES_AUTH", "SEC_SESSION_POST_RESPONSE",
)  # fmt: skip
"""Assertions that must have been tested, and passed: a validator that gave up early proves nothing."""


@pytest.fixture(scope="module")
def rigs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Rig]]:
    folder = tmp_path_factory.mktemp("bmc")
    made = {vendor: Rig(vendor, folder) for vendor in PATHS}
    yield made
    for rig in made.values():
        rig.client.close()
        rig.server.stop()


@pytest.fixture(params=PATHS)
def rig(request: pytest.FixtureRequest, rigs: dict[str, Rig]) -> Rig:
    """A BMC with something to see: an open session, and a job where there are jobs."""
    made = rigs[request.param].fresh()
    made.submit(**(WHEN if made.machine.traits.jobs else {}))
    assert made.ask("POST", f"{ROOT}SessionService/Sessions", {"UserName": "admin", "Password": "admin"}).status == 201
    return made


def test_protocol_validator(rig: Rig, tmp_path: Path) -> None:
    ca_path = rig.server.ca_path
    env = {**os.environ, "REQUESTS_CA_BUNDLE": ca_path, "CURL_CA_BUNDLE": ca_path}
    words = ["--user", "admin", "--password", "admin", "--rhost", rig.server.url, "--ca-bundle", ca_path]
    words += ["--avoid-http-redirect", "--report-type", "tsv", "--report-dir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-c", VALIDATOR, *words], env=env, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip
    reports = list(tmp_path.glob("*.tsv"))
    assert len(reports) == 1, done.stdout + done.stderr
    with reports[0].open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    bad = [(r["Assertion"], r["Method"], r["URI"], r["Message"]) for r in rows if r["Result"] in ("FAIL", "WARN")]
    assert bad == [], done.stdout
    passed = {r["Assertion"] for r in rows if r["Result"] == "PASS"}
    assert set(PROMISED) <= passed, set(PROMISED) - passed


# -- a walk over all resources


def links(value: Any) -> Iterator[str]:
    """Paths that a document names."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in ("@odata.id", "Uri") and isinstance(inner, str):
                yield inner
            else:
                yield from links(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from links(inner)


def walk(client: Client) -> dict[str, Answer]:
    """All that is reached from the root, by path."""
    found: dict[str, Answer] = {}
    todo = [ROOT]
    while todo:
        path = todo.pop()
        if path not in found:
            found[path] = client.ask("GET", path)
            assert found[path].status == 200, (path, found[path])
            todo += links(found[path].document)
    return found


def targets(document: dict[str, Any]) -> Iterator[str]:
    """Targets of the actions of a resource."""
    actions = document.get("Actions") or {}
    for action in [*actions.values(), *(actions.get("Oem") or {}).values()]:
        if "target" in action:
            yield action["target"]


def test_walk(rig: Rig) -> None:
    found = walk(rig.client)
    assert {*PATHS[rig.vendor][:1], rig.settings, f"{ROOT}AccountService/Roles/Operator"} <= found.keys()
    assert sum("/Jobs/JID_" in path for path in found) == (2 if rig.vendor == "dell" else 0)
    assert sum(path.endswith("/Registry.json") for path in found) == (0 if rig.vendor == "nvidia_grace" else 1)
    for path, answer in found.items():
        document = answer.document
        assert document["@odata.id"] == path
        assert document["Name"], path
        if "Members" in document:
            assert COLLECTION.fullmatch(document["@odata.type"]), (path, document["@odata.type"])
            assert document["Members@odata.count"] == len(document["Members"]), path
            assert all(link["@odata.id"] in found for link in document["Members"]), path
        else:
            assert VERSIONED.fullmatch(document["@odata.type"]), (path, document["@odata.type"])
            assert isinstance(document["Id"], str) and document["Id"], path


def test_headers_of_every_resource(rig: Rig) -> None:
    for path, answer in walk(rig.client).items():
        headers, document = answer.headers, answer.document
        assert headers["odata-version"] == "4.0"
        assert headers["content-type"] == "application/json; charset=utf-8"
        assert headers["cache-control"] == "no-cache"
        assert headers.get("etag") == document.get("@odata.etag"), path
        schema = document["@odata.type"].lstrip("#").rpartition(".")[0]
        assert headers["link"].startswith("<http") and headers["link"].endswith(f"/{schema}.json>; rel=describedby"), path
        head = rig.ask("HEAD", path)
        same = {name: value for name, value in headers.items() if name != "date"}
        assert (head.status, head.text) == (200, "") and {n: v for n, v in head.headers.items() if n != "date"} == same, path


def test_every_resource_refuses_what_it_does_not_allow(rig: Rig) -> None:
    for path, answer in walk(rig.client).items():
        allowed = answer.headers["allow"].split(", ")
        assert allowed[:2] == ["GET", "HEAD"]
        for method in {"PUT", "POST", "PATCH", "DELETE"} - set(allowed):
            refused = rig.ask(method, path, {})
            assert (refused.status, refused.headers["allow"].split(", ")) == (405, allowed), (method, path)
            check_error(refused, "OperationNotAllowed")
        for method in ("GET", *allowed[2:]):
            if path != ROOT and (method, path) != ("POST", f"{ROOT}SessionService/Sessions"):
                check_error(rig.ask(method, path, {}, login=""), "NoValidSession")


def check_error(answer: Answer, message: str) -> None:
    """What DSP0266 says of an error body."""
    error = answer.document["error"]
    assert error.keys() == {"code", "message", "@Message.ExtendedInfo"} and error["code"] and error["message"]
    assert re.fullmatch(r"\w+(\.\d+){2}\.\w+", error["code"])
    for info in error["@Message.ExtendedInfo"]:
        assert re.fullmatch(r"#Message\.v\d+_\d+_\d+\.Message", info["@odata.type"])
        assert re.fullmatch(r"\w+(\.\d+){2}\.\w+", info["MessageId"]) and info["Message"]
        assert info["MessageSeverity"] in ("OK", "Warning", "Critical")
        assert all(isinstance(word, str) for word in info["MessageArgs"])
    assert answer.messages == [message]


def test_what_is_not_there(rig: Rig) -> None:
    for path in (f"{ROOT}Nothing", f"{rig.settings}/Nothing", f"{ROOT}SessionService/Sessions/0", f"{ROOT}SessionService/SessionsX"):
        for method in ("GET", "POST", "PATCH", "DELETE"):
            answer = rig.ask(method, path, {})
            assert answer.status == 404, (method, path)
            check_error(answer, "ResourceMissingAtURI")
    assert rig.ask("FETCH", ROOT).status == 501


def test_queries(rig: Rig) -> None:
    refused = rig.ask("GET", f"{ROOT}Systems?$filter=Id%20eq%201")
    assert refused.status == 501
    check_error(refused, "QueryNotSupported")
    assert rig.ask("GET", f"{ROOT}Systems?%24select=Name").status == 501
    assert rig.ask("GET", f"{ROOT}Systems?colour=blue").status == 200
    older = rig.ask("GET", f"{ROOT}Systems", headers={"OData-Version": "3.0"})
    assert older.status == 412
    check_error(older, "HeaderInvalid")


def test_actions_answer(rig: Rig) -> None:
    seen = [target for answer in walk(rig.client).values() for target in targets(answer.document)]
    wanted = {"ComputerSystem.Reset", "Bios.ResetBios"} | ({"DellManager.ClearPending"} if rig.vendor == "dell" else set())
    assert {target.rpartition("/")[2] for target in seen} == wanted
    for target in seen:
        got = rig.ask("GET", target)
        assert (got.status, got.headers["allow"]) == (405, "POST"), target
        assert rig.ask("POST", target, {}).status in (200, 204, 400), target


def test_allowable_values_are_allowed(rig: Rig) -> None:
    system = rig.client.get(rig.settings.rpartition("/")[0].rpartition("/")[0])
    boot, reset = system["Boot"], system["Actions"]["#ComputerSystem.Reset"]
    targets_of_boot = boot["BootSourceOverrideTarget@Redfish.AllowableValues"]
    assert boot["BootSourceOverrideTarget"] in targets_of_boot
    for source in targets_of_boot:
        answer = rig.ask("PATCH", system["@odata.id"], {"Boot": {"BootSourceOverrideTarget": source}})
        assert answer.status == 200, source
    for kind in reset["ResetType@Redfish.AllowableValues"]:
        assert rig.ask("POST", reset["target"], {"ResetType": kind}).status == 204, kind
    for when in rig.client.get(PATHS[rig.vendor][0])["@Redfish.Settings"].get("SupportedApplyTimes", ()):
        rig.fresh()
        assert rig.submit(**{"@Redfish.SettingsApplyTime": {"ApplyTime": when}}).status in (200, 202), when


def test_registry_describes_the_attributes(rig: Rig) -> None:
    found = walk(rig.client)
    current = rig.attributes(PATHS[rig.vendor][0])
    name = rig.client.get(PATHS[rig.vendor][0]).get("AttributeRegistry", "")
    registries = [a.document for path, a in found.items() if path.endswith("/Registry.json")]
    assert [r["Id"] for r in registries] == ([name] if name else [])
    for registry in registries:
        entries = {e["AttributeName"]: e for e in registry["RegistryEntries"]["Attributes"]}
        assert entries.keys() == current.keys()
        for attribute, value in current.items():
            allowed = [v["ValueName"] for v in entries[attribute].get("Value", ())]
            assert not allowed or value in allowed, attribute
        assert ASKED[rig.vendor].keys() <= entries.keys()
