"""Plain requests to a BMC over one connection, as a test wants to see them; and a test BMC of each vendor to send them to."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nearmetal.bmc import resources
from nearmetal.bmc.machine import Machine
from nearmetal.bmc.server import BmcServer, Faults
from nearmetal.bmc.service import Service

PATHS = {
    "dell": ("/redfish/v1/Systems/System.Embedded.1/Bios", "Settings"), "hpe": ("/redfish/v1/systems/1/bios", "settings"),
    "lenovo": ("/redfish/v1/Systems/1/Bios", "Pending"), "supermicro": ("/redfish/v1/Systems/1/Bios", "SD"),
    "nvidia_dgx": ("/redfish/v1/Systems/DGX/Bios", "SD"), "nvidia_grace": ("/redfish/v1/Systems/System_0/Bios", "Settings"),
}  # fmt: skip
ASKED: dict[str, dict[str, Any]] = {
    "dell": {"LogicalProc": "Disabled"}, "hpe": {"ProcSMT": "Disabled"}, "lenovo": {"Processors_HyperThreading": "Disabled"},
    "supermicro": {"SecureBootEnable_0122": True}, "nvidia_dgx": {"SRIOVEnable": "Disable"}, "nvidia_grace": {"EGM": True},
}  # fmt: skip
"""A change for each vendor."""
WHEN = {"@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"}}


@dataclass
class Answer:
    """What came back. Names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def document(self) -> dict[str, Any]:
        """The JSON of the body."""
        return dict(json.loads(self.text))

    @property
    def messages(self) -> list[str]:
        """Names of the messages of an error body."""
        return [info["MessageId"].rpartition(".")[2] for info in self.document["error"]["@Message.ExtendedInfo"]]


class Client:
    """Asks one BMC, by default with basic authentication as admin."""

    def __init__(self, url: str, ca_path: str = "", timeout: float = 20.0) -> None:
        parts = urlsplit(url)
        assert parts.hostname and parts.port
        self._connection: http.client.HTTPConnection
        if ca_path:
            context = ssl.create_default_context(cafile=ca_path)
            self._connection = http.client.HTTPSConnection(parts.hostname, parts.port, timeout=timeout, context=context)
        else:
            self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, login: str = "admin:admin"
    ) -> Answer:
        """One request. body: JSON, or bytes as they are; login: NAME:PASSWORD, "" for none."""
        given = {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"} if login else {}
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        self._connection.request(method, path, data, {**given, **(headers or {})})
        reply = self._connection.getresponse()
        return Answer(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read().decode())

    def get(self, path: str) -> dict[str, Any]:
        """The document at a path, which must be there."""
        answer = self.ask("GET", path)
        assert answer.status == 200, (path, answer)
        return answer.document

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


class Rig:
    """A server with its client; `fresh` gives it a new machine."""

    def __init__(self, vendor: str, folder: Path) -> None:
        self.vendor = vendor
        self.server = BmcServer(Machine.made_up(vendor), folder=folder).start()
        self.client = Client(self.server.url, self.server.ca_path)
        self.ask = self.client.ask

    def fresh(self) -> Rig:
        machine = Machine.made_up(self.vendor)
        self.server.machine, self.server.service, self.server.faults = machine, Service(machine), Faults()
        self.server.requests.clear()
        return self

    @property
    def machine(self) -> Machine:
        return self.server.machine

    @property
    def settings(self) -> str:
        return "/".join(PATHS[self.vendor])

    def match(self) -> dict[str, str]:
        return {"If-Match": self.ask("GET", self.settings).headers["etag"]}

    def submit(self, **more: Any) -> Any:
        return self.ask("PATCH", self.settings, {"Attributes": ASKED[self.vendor], **more}, self.match())

    def reset(self, kind: str = "ForceRestart") -> Any:
        system = self.client.get(resources.system_path(self.machine))
        return self.ask("POST", system["Actions"]["#ComputerSystem.Reset"]["target"], {"ResetType": kind})

    def attributes(self, path: str) -> dict[str, Any]:
        return dict(self.client.get(path)["Attributes"])
