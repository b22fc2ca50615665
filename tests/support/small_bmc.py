"""A BMC for tests of the client: a table of resources behind HTTP(S), and faults by order."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = "/redfish/v1/"
SYSTEM = "/redfish/v1/Systems/1"
BIOS = f"{SYSTEM}/Bios"
SETTINGS = f"{BIOS}/Settings"
SESSIONS = "/redfish/v1/SessionService/Sessions"
PASSWORD = "s3cret-Word"

Answer = tuple[int, dict[str, str], Any]
Fault = Callable[["SmallBmc", str, str], Answer | None]


def resources() -> dict[str, dict[str, Any]]:
    """A machine of no particular vendor."""
    return {
        ROOT: {"Systems": {"@odata.id": "/redfish/v1/Systems"}, "Links": {"Sessions": {"@odata.id": SESSIONS}}},
        "/redfish/v1/Systems": {"Members": [{"@odata.id": "/redfish/v1/Systems/HGX_Baseboard_0"}, {"@odata.id": SYSTEM}]},
        "/redfish/v1/Systems/HGX_Baseboard_0": {"@odata.id": "/redfish/v1/Systems/HGX_Baseboard_0"},
        SYSTEM: {
            "@odata.id": SYSTEM, "Manufacturer": "ACME", "Model": "Anvil", "BiosVersion": "1.0", "PowerState": "On",
            "Bios": {"@odata.id": BIOS}, "Status": {"Health": "OK"},
            "Actions": {"#ComputerSystem.Reset": {
                "target": f"{SYSTEM}/Actions/ComputerSystem.Reset",
                "ResetType@Redfish.AllowableValues": ["On", "ForceOff", "GracefulShutdown", "ForceRestart"]}},
            "Boot": {"BootSourceOverrideTarget": "None", "BootSourceOverrideEnabled": "Disabled",
                     "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe"]},
        },
        BIOS: {"Attributes": {"Smt": "Enabled", "AdminPassword": "hunter2", "Cores": 8},
               "AttributeRegistry": "AcmeRegistry.v1_0_0",
               "@Redfish.Settings": {"SettingsObject": {"@odata.id": SETTINGS}, "SupportedApplyTimes": ["OnReset"]}},
        SETTINGS: {"Attributes": {}, "@odata.etag": 'W/"1"'},
        "/redfish/v1/Registries/AcmeRegistry.v1_0_0": {"Location": [
            {"Language": "fr", "Uri": "/registries/fr.json"}, {"Language": "en", "Uri": "/registries/en.json"}]},
        "/registries/en.json": {"RegistryEntries": {"Attributes": [
            {"AttributeName": "Smt", "Type": "Enumeration", "Value": [{"ValueName": "Enabled", "ValueDisplayName": "On"},
                                                                      {"ValueName": "Disabled", "ValueDisplayName": "Off"}]},
            {"AttributeName": "Cores", "Type": "Integer", "LowerBound": 0, "UpperBound": 8, "ReadOnly": False}],
            "Dependencies": []}},
    }  # fmt: skip


class SmallBmc:
    """State of one BMC. faults: asked in turn before each request; one that returns an answer is used up."""

    def __init__(self) -> None:
        self.resources = resources()
        self.faults: list[Fault] = []
        self.log: list[tuple[str, str]] = []
        self.sent: list[tuple[str, str, dict[str, str], Any]] = []
        self.sessions: set[str] = set()
        self.connections = 0
        self.version = 1
        self.url = ""
        self.refuse: Callable[[dict[str, Any]], Answer | None] = lambda attributes: None

    def answer(self, method: str, path: str, headers: dict[str, str], body: Any) -> Answer:
        for fault in list(self.faults):
            answer = fault(self, method, path)
            if answer is not None:
                self.faults.remove(fault)
                return answer
        if (method, path) == ("POST", SESSIONS):
            return self._login(body)
        if path != ROOT and headers.get("x-auth-token") not in self.sessions and "authorization" not in headers:
            return 401, {}, error("NoValidSession")
        if method == "DELETE" and path.startswith(SESSIONS):
            self.sessions.discard(path.rpartition("/")[2])
            return 204, {}, None
        if method in ("PATCH", "POST"):
            return self._patch(path, headers, body) if method == "PATCH" else self._reset(body)
        found = self.resources.get(path)
        return (404, {}, error("ResourceMissingAtURI")) if found is None else (200, {}, found)

    def _login(self, body: Any) -> Answer:
        if body != {"UserName": "admin", "Password": PASSWORD}:
            return 401, {}, error("ResourceAtUriUnauthorized", f"no login with {body['Password']}")
        token = f"token{len(self.log)}"
        self.sessions.add(token)
        return 201, {"X-Auth-Token": token, "Location": f"{SESSIONS}/{token}"}, {}

    def _patch(self, path: str, headers: dict[str, str], body: Any) -> Answer:
        resource = self.resources[path]
        tag = resource.get("@odata.etag")
        if tag and headers.get("if-match") not in (tag, "*"):
            return (412 if "if-match" in headers else 428), {}, error("PreconditionFailed")
        refused = self.refuse(body.get("Attributes") or {})
        if refused:
            return refused
        for key, value in body.items():
            if isinstance(value, dict) and not key.startswith("@"):
                resource[key].update(value)
        self.version += 1
        if tag:
            resource["@odata.etag"] = f'W/"{self.version}"'
        return 200, {}, {}

    def _reset(self, body: Any) -> Answer:
        kind = body["ResetType"]
        states = {"On": "On", "ForceOff": "Off", "GracefulShutdown": "Off", "ForceRestart": "On", "PowerCycle": "On"}
        self.resources[SYSTEM]["PowerState"] = states[kind]
        return 204, {}, None


def error(name: str, text: str = "", args: tuple[str, ...] = (), related: str = "") -> dict[str, Any]:
    """An error body."""
    message: dict[str, Any] = {"MessageId": f"Base.1.8.{name}", "Message": text, "MessageArgs": list(args)}
    if related:
        message["RelatedProperties"] = [f"#/Attributes/{related}"]
    return {"error": {"code": "Base.1.8.GeneralError", "message": "see", "@Message.ExtendedInfo": [message]}}


def status(code: int, method: str = "", path: str = "", headers: dict[str, str] | None = None) -> Fault:
    """A fault: answer the next fitting request with a status."""

    def fault(_bmc: SmallBmc, had: str, where: str) -> Answer | None:
        fits = method in ("", had) and path in ("", where)
        return (code, headers or {}, error("Fault")) if fits else None

    return fault


def hang_up(method: str = "", path: str = "") -> Fault:
    """A fault: end the connection without an answer."""

    def fault(_bmc: SmallBmc, had: str, where: str) -> Answer | None:
        return (0, {}, None) if method in ("", had) and path in ("", where) else None

    return fault


@contextlib.contextmanager
def serving(bmc: SmallBmc, pem: Path | None = None) -> Iterator[SmallBmc]:
    """Serve it on a port of this machine; over TLS where there is a file with key and certificate."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            bmc.connections += 1

        def handle_one_request(self) -> None:
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                super().handle_one_request()

        def log_message(self, *_args: Any) -> None:
            pass

        def _do(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            headers = {k.lower(): v for k, v in self.headers.items()}
            bmc.log.append((self.command, self.path))
            bmc.sent.append((self.command, self.path, headers, body))
            code, more, document = bmc.answer(self.command, self.path, headers, body)
            if not code:
                self.close_connection = True
                return
            data = b"" if document is None else json.dumps(document).encode()
            self.send_response(code)
            for name, value in {**more, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_DELETE = _do  # noqa: N815

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if pem is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    bmc.url = f"{'https' if pem else 'http'}://127.0.0.1:{server.server_address[1]}"
    try:
        yield bmc
    finally:
        server.shutdown()
        server.server_close()


def certificate(folder: Path, name: str = "127.0.0.1") -> Path:
    """A file with a new key and its certificate for a name or address."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bmc")])
    now = datetime.datetime.now(datetime.UTC)
    try:
        general: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        general = x509.DNSName(name)
    made = (
        x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([general]), critical=False).sign(key, hashes.SHA256())
    )  # fmt: skip
    path = folder / f"{name}.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path
