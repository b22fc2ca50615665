"""What a BMC answers: authentication, sessions, reading, writing, actions. No sockets here."""

from __future__ import annotations

import base64
import hmac
import json
import re
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from . import protocol, resources
from .machine import Machine, Refused
from .protocol import SESSIONS

OPEN = ("/redfish", resources.ROOT, protocol.ODATA, protocol.METADATA)
MAX_SESSIONS = 16
GOOD = ("Base.1.12.Success", "IDRAC.2.8.SYS053")


@dataclass
class Reply:
    """Status, document and headers of an answer; text and its kind where it is no JSON."""

    status: int
    document: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    text: str = ""
    kind: str = "application/xml"


class Service:
    """One BMC's Redfish service over its machine."""

    def __init__(self, machine: Machine, username: str = "admin", password: str = "admin", max_sessions: int = MAX_SESSIONS) -> None:
        self.machine = machine
        self._login = (username, password)
        self._sessions: dict[str, str] = {}
        self._max = max_sessions
        self._guard = threading.Lock()

    @property
    def sessions(self) -> int:
        """How many sessions are open."""
        return len(self._sessions)

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Answer one request. Names of headers are the same in any case."""
        path, _, query = target.partition("?")
        path = path.rstrip("/")
        given = {name.lower(): value for name, value in headers.items()}
        try:
            allowed = self._admit(method, path, query, given)
            reply = self._route(method, path, given, body)
        except Refused as err:
            more = {401: {"WWW-Authenticate": 'Basic realm="Redfish"'}, 405: {"Allow": ", ".join(self._methods(path))}}
            return Reply(err.status, error(*err.errors), more.get(err.status, {}))
        if method in protocol.READ:
            reply.headers["Allow"] = ", ".join(allowed)
        return reply

    def _methods(self, path: str) -> tuple[str, ...]:
        return protocol.methods(self.machine, path, self._sessions.values())

    def _admit(self, method: str, path: str, query: str, headers: Mapping[str, str]) -> tuple[str, ...]:
        """The methods of a path, unless the request is refused before anything is looked at."""
        login = method == "POST" and self._is(path.removesuffix("/Members"), SESSIONS)
        if path not in OPEN and not login and not self._known(headers):
            raise Refused(("Base.1.12.NoValidSession", [], ""), status=401)
        if headers.get("odata-version", "4.0") != "4.0":
            raise Refused(("Base.1.12.HeaderInvalid", ["OData-Version"], ""), status=412)
        allowed = self._methods(path)
        if not allowed:
            raise Refused(("Base.1.12.ResourceMissingAtURI", [path], ""), status=404)
        if method not in allowed:
            raise Refused(("Base.1.12.OperationNotAllowed", [], ""), status=405)
        known = ("$expand",) if self.machine.traits.jobs else ()
        words = [unquote(word.partition("=")[0]) for word in query.split("&")]
        if unknown := [word for word in words if word.startswith("$") and word not in known]:
            raise Refused(("Base.1.12.QueryNotSupported", [", ".join(unknown)], ""), status=501)
        return allowed

    def _route(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        if method in protocol.READ:
            return self._get(path)
        if method == "PATCH":
            return self._patch(path, headers, _json(body))
        if method == "POST":
            return self._post(path, _json(body))
        name = path.rpartition("/")[2]
        if self._is(path, f"{SESSIONS}/{name}"):
            with self._guard:
                self._sessions = {token: known for token, known in self._sessions.items() if known != name}
            return Reply(204)
        self.machine.drop_job(name)
        return Reply(200, error(("Base.1.12.Success", [], "")))

    def _get(self, path: str) -> Reply:
        if path == protocol.METADATA:
            kinds = [d["@odata.type"] for d in protocol.documents("", ("",)).values()]
            return Reply(200, text=protocol.metadata([*resources.types(self.machine), *kinds]))
        if path == protocol.ODATA:
            return Reply(200, protocol.odata())
        own = protocol.documents(self._login[0], list(self._sessions.values()))
        document = self.machine.traits.find(own, path) or resources.resource(self.machine, path) or {}
        headers = {"Link": protocol.described_by(document), "ETag": str(document.get("@odata.etag") or "")}
        return Reply(200, document, {name: value for name, value in headers.items() if value})

    # -- sessions

    def _known(self, headers: Mapping[str, str]) -> bool:
        token = headers.get("x-auth-token", "")
        if token:
            return token in self._sessions
        kind, _, text = headers.get("authorization", "").partition(" ")
        try:
            name, _, password = base64.b64decode(text).decode().partition(":")
        except ValueError:
            return False
        return kind.lower() == "basic" and self._right(name, password)

    def _right(self, name: str, password: str) -> bool:
        wanted = ":".join(self._login).encode()
        return hmac.compare_digest(f"{name}:{password}".encode(), wanted)

    def _log_in(self, asked: dict[str, Any]) -> Reply:
        if not self._right(str(asked.get("UserName")), str(asked.get("Password"))):
            return Reply(401, error(("Base.1.12.ResourceAtUriUnauthorized", [SESSIONS, "wrong user name or password"], "")))
        with self._guard:
            if len(self._sessions) >= self._max:
                raise Refused(("Base.1.12.SessionLimitExceeded", [], ""), status=503)
            token, name = secrets.token_hex(16), secrets.token_hex(4)
            self._sessions[token] = name
        headers = {"X-Auth-Token": token, "Location": f"{SESSIONS}/{name}"}
        return Reply(201, protocol.session(name, self._login[0]), headers)

    # -- changes

    def _patch(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Reply:
        if self._is(path, self.machine.settings_path):
            with self.machine.held():  # between the ETag and the change nobody else may write
                self._check_etag(headers)
                return self._patch_settings(body)
        if extra := [name for name in body if name != "Boot"]:
            raise Refused(*(("Base.1.12.PropertyNotWritable", [name], "") for name in extra))
        return self._patch_boot(_object(body, "Boot"))

    def _check_etag(self, headers: Mapping[str, str]) -> None:
        given = headers.get("if-match", "")
        if not given and self.machine.traits.needs_if_match:
            raise Refused(("Base.1.12.PreconditionRequired", [], ""), status=428)
        if given not in ("", "*", resources.etag(self.machine)):
            raise Refused(("Base.1.12.PreconditionFailed", [], ""), status=412)

    def _patch_settings(self, body: dict[str, Any]) -> Reply:
        attributes = body.get("Attributes")
        if not isinstance(attributes, dict) or not attributes:
            raise Refused(("Base.1.12.PropertyMissing", ["Attributes"], ""))
        known = ("Attributes", "@Redfish.SettingsApplyTime")
        if extra := [name for name in body if name not in known]:
            raise Refused(*(("Base.1.12.PropertyUnknown", [name], "") for name in extra))
        when = _object(body, "@Redfish.SettingsApplyTime").get("ApplyTime")
        job = self.machine.submit(attributes, when)
        if job is not None:
            where = f"{resources.manager_path(self.machine)}/Jobs/{job.id}"
            return Reply(202, error(("IDRAC.2.8.SYS053", [], "")), {"Location": where})
        return Reply(200, error(("Base.1.12.Success", [], "")))

    def _patch_boot(self, boot: dict[str, Any]) -> Reply:
        known = {
            "BootSourceOverrideTarget": resources.BOOT_TARGETS,
            "BootSourceOverrideEnabled": ("Once", "Continuous", "Disabled"),
        }
        if not boot:
            raise Refused(("Base.1.12.PropertyMissing", ["Boot"], ""))
        if extra := [name for name in boot if name not in known]:
            raise Refused(*(("Base.1.12.PropertyUnknown", [name], "") for name in extra))
        if wrong := [name for name, value in boot.items() if value not in known[name]]:
            raise Refused(("Base.1.12.PropertyValueNotInList", [str(boot[wrong[0]]), wrong[0]], ""))
        target = boot.get("BootSourceOverrideTarget", self.machine.boot["target"])
        with self.machine.changing():
            self.machine.boot.update(target=target, enabled=boot.get("BootSourceOverrideEnabled", "Once"))
        return Reply(200, error(("Base.1.12.Success", [], "")))

    def _post(self, path: str, body: dict[str, Any]) -> Reply:
        machine = self.machine
        if self._is(path.removesuffix("/Members"), SESSIONS):
            return self._log_in(body)
        if any(self._is(path, jobs) for jobs in resources.job_paths(machine)):
            if not self._is(str(body.get("TargetSettingsURI")), machine.settings_path) or not machine.waiting:
                raise Refused(("IDRAC.2.8.SYS009", ["nothing is pending"], ""))
            return Reply(200, error(("Base.1.12.Success", [], "")), {"Location": f"{path}/{machine.schedule().id}"})
        action = next(does for target, does in resources.actions(machine).items() if self._is(path, target))
        if action == "reset":
            if "ResetType" not in body:
                raise Refused(("Base.1.12.ActionParameterMissing", ["ComputerSystem.Reset", "ResetType"], ""))
            machine.reset(str(body["ResetType"]))
            return Reply(204)
        if action == "clear":
            machine.clear()
        else:
            machine.reset_bios()
        return Reply(200, error(("Base.1.12.Success", [], "")))

    def _is(self, path: str, known: str) -> bool:
        return self.machine.traits.plain(path) == self.machine.traits.plain(known)


def _object(body: dict[str, Any], name: str) -> dict[str, Any]:
    """A property that is an object; {} where it is left out."""
    found = body.get(name, {})
    if not isinstance(found, dict):
        raise Refused(("Base.1.12.PropertyValueTypeError", [str(found), name], ""))
    return found


def _json(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body or b"{}")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Refused(("Base.1.12.MalformedJSON", [], ""))
    return found


def error(*errors: tuple[str, list[str], str]) -> dict[str, Any]:
    """An error body, as DSP0266 has it."""
    infos = [
        {
            "@odata.type": "#Message.v1_1_2.Message", "MessageId": message, "MessageArgs": words,
            "Message": _text(message, words), "MessageSeverity": "OK" if message in GOOD else "Warning",
            **({"RelatedProperties": [f"#/Attributes/{attribute}"]} if attribute else {}),
        }
        for message, words, attribute in errors
    ]  # fmt: skip
    return {"error": {"code": "Base.1.12.GeneralError", "message": infos[0]["Message"], "@Message.ExtendedInfo": infos}}


def _text(message: str, words: list[str]) -> str:
    name = message.rpartition(".")[2]
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
    return f"{spaced}: {', '.join(words)}" if words else spaced
