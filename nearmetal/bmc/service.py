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

from . import resources
from .machine import Machine, Refused

SESSIONS = f"{resources.ROOT}/SessionService/Sessions"
OPEN = ("/redfish", resources.ROOT)
MAX_SESSIONS = 16


@dataclass
class Reply:
    """Status, document and headers of an answer."""

    status: int
    document: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)


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
        """Answer one request."""
        path = target.partition("?")[0].rstrip("/")
        try:
            if method == "POST" and path == SESSIONS:
                return self._log_in(_json(body))
            if path not in OPEN and not self._known(headers):
                return Reply(401, _error(("Base.1.12.InsufficientPrivilege", [], "")), {"WWW-Authenticate": 'Basic realm="Redfish"'})
            return self._route(method, path, headers, body)
        except Refused as err:
            return Reply(err.status, _error(*err.errors))

    def _route(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        if path.startswith(SESSIONS):
            return self._session(method, path)
        if method in ("GET", "HEAD"):
            return self._get(path)
        if method == "PATCH":
            return self._patch(path, headers, _json(body))
        if method == "POST":
            return self._post(path, _json(body))
        if method == "DELETE" and (job := self._job(path)):
            self.machine.drop_job(job)
            return Reply(200, _error(("Base.1.12.Success", [], "")))
        return Reply(405, _error(("Base.1.12.OperationNotAllowed", [], "")))

    def _get(self, path: str) -> Reply:
        document = resources.resource(self.machine, path)
        if document is None:
            return Reply(404, _error(("Base.1.12.ResourceMissingAtURI", [path], "")))
        tag = document.get("@odata.etag")
        return Reply(200, document, {"ETag": str(tag)} if tag else {})

    # -- sessions

    def _known(self, headers: Mapping[str, str]) -> bool:
        token = headers.get("X-Auth-Token", "")
        if token:
            return token in self._sessions
        kind, _, text = headers.get("Authorization", "").partition(" ")
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
            return Reply(401, _error(("Base.1.12.ResourceAtUriUnauthorized", [SESSIONS, "wrong user name or password"], "")))
        with self._guard:
            if len(self._sessions) >= self._max:
                raise Refused(("Base.1.12.SessionLimitExceeded", [], ""), status=503)
            token, name = secrets.token_hex(16), secrets.token_hex(4)
            self._sessions[token] = name
        headers = {"X-Auth-Token": token, "Location": f"{SESSIONS}/{name}"}
        return Reply(201, self._session_document(name), headers)

    def _session_document(self, name: str) -> dict[str, Any]:
        return {
            "@odata.id": f"{SESSIONS}/{name}", "@odata.type": "#Session.v1_3_0.Session", "Id": name, "Name": "Session",
            "UserName": self._login[0],
        }  # fmt: skip

    def _session(self, method: str, path: str) -> Reply:
        name = path.removeprefix(SESSIONS).strip("/")
        known = list(self._sessions.values())
        if not name and method == "GET":
            return Reply(200, resources.collection(SESSIONS, "Session", "Sessions", [f"{SESSIONS}/{n}" for n in known]))
        if name not in known:
            return Reply(404, _error(("Base.1.12.ResourceMissingAtURI", [path], "")))
        if method == "DELETE":
            with self._guard:
                self._sessions = {t: n for t, n in self._sessions.items() if n != name}
            return Reply(204)
        return Reply(200, self._session_document(name))

    # -- changes

    def _patch(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Reply:
        machine = self.machine
        if self._is(path, machine.settings_path):
            self._check_etag(headers)
            return self._patch_settings(body)
        if self._is(path, machine.bios_path):
            raise Refused(("Base.1.12.PropertyNotWritable", ["Attributes"], ""), status=405)
        if self._is(path, resources.system_path(machine)):
            return self._patch_boot(body.get("Boot") or {})
        return Reply(405, _error(("Base.1.12.OperationNotAllowed", [], "")))

    def _check_etag(self, headers: Mapping[str, str]) -> None:
        given = headers.get("If-Match", "")
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
            raise Refused(("Base.1.12.PropertyUnknown", extra, ""))
        when = (body.get("@Redfish.SettingsApplyTime") or {}).get("ApplyTime")
        job = self.machine.submit(attributes, when)
        if job is not None:
            where = f"{resources.manager_path(self.machine)}/Jobs/{job.id}"
            return Reply(202, _error(("IDRAC.2.8.SYS053", [], "")), {"Location": where})
        return Reply(200, _error(("Base.1.12.Success", [], "")))

    def _patch_boot(self, boot: dict[str, Any]) -> Reply:
        allowed = ("None", "Pxe", "Hdd", "Cd", "BiosSetup", "UefiHttp")
        target = boot.get("BootSourceOverrideTarget", self.machine.boot["target"])
        enabled = boot.get("BootSourceOverrideEnabled", "Once")
        if not boot or target not in allowed or enabled not in ("Once", "Continuous", "Disabled"):
            raise Refused(("Base.1.12.PropertyValueNotInList", [str(target), "BootSourceOverrideTarget"], ""))
        with self.machine.changing():
            self.machine.boot.update(target=target, enabled=enabled)
        return Reply(200, _error(("Base.1.12.Success", [], "")))

    def _post(self, path: str, body: dict[str, Any]) -> Reply:
        machine = self.machine
        if self._is(path, f"{resources.system_path(machine)}/Actions/ComputerSystem.Reset"):
            machine.reset(str(body.get("ResetType")))
            return Reply(204)
        if path.endswith("DellManager.ClearPending") and machine.traits.jobs:
            machine.clear()
            return Reply(200, _error(("Base.1.12.Success", [], "")))
        if path in resources.job_paths(machine):
            if not self._is(str(body.get("TargetSettingsURI")), machine.settings_path) or not machine.waiting:
                raise Refused(("IDRAC.2.8.SYS009", ["nothing is pending"], ""))
            return Reply(200, _error(("Base.1.12.Success", [], "")), {"Location": f"{path}/{machine.schedule().id}"})
        return Reply(404, _error(("Base.1.12.ResourceMissingAtURI", [path], "")))

    def _is(self, path: str, known: str) -> bool:
        one, other = path.rstrip("/"), known.rstrip("/")
        return one.lower() == other.lower() if self.machine.traits.any_case else one == other

    def _job(self, path: str) -> str:
        top, _, name = path.rpartition("/")
        return name if top in resources.job_paths(self.machine) and re.fullmatch(r"JID_\d+", name) else ""


def _json(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body or b"{}")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Refused(("Base.1.12.MalformedJSON", [], ""))
    return found


def _error(*errors: tuple[str, list[str], str]) -> dict[str, Any]:
    """An error body, as DSP0266 has it."""
    infos = [
        {
            "@odata.type": "#Message.v1_1_2.Message", "MessageId": message, "MessageArgs": words,
            "Message": _text(message, words), "MessageSeverity": "OK" if message.endswith("Success") else "Warning",
            **({"RelatedProperties": [f"#/Attributes/{attribute}"]} if attribute else {}),
        }
        for message, words, attribute in errors
    ]  # fmt: skip
    return {"error": {"code": "Base.1.12.GeneralError", "message": infos[0]["Message"], "@Message.ExtendedInfo": infos}}


def _text(message: str, words: list[str]) -> str:
    name = message.rpartition(".")[2]
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
    return f"{spaced}: {', '.join(words)}" if words else spaced
