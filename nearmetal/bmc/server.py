"""A BMC on the network: HTTP or HTTPS over a Service, with the faults that real ones have."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

from . import certificate
from .machine import Machine
from .service import Reply, Service, error


@dataclass
class Faults:
    """What goes wrong. All may be changed while the server runs."""

    #: seconds before each answer
    slow_s: float = 0.0
    #: statuses of the next answers, in place of what was asked for
    statuses: deque[int] = field(default_factory=deque)
    retry_after: int | None = None
    #: connections that are reset instead of the next answers
    resets: int = 0
    #: after a PATCH was taken, nothing is answered any more, until `revive`
    die_after_patch: bool = False
    dead: bool = False
    #: ETags sent are not those that count
    stale_etag: bool = False
    #: every path is answered with a redirect to there
    redirect: str = ""
    #: requests are read and never answered
    hang: bool = False

    def fail_next(self, count: int, status: int) -> None:
        """Answer the next `count` requests with a status."""
        self.statuses.extend([status] * count)

    def revive(self) -> None:
        """Answer again."""
        self.dead = self.die_after_patch = self.hang = False


class BmcServer:
    """Serves one machine; a context manager. `requests` has (method, path, status) of all that was asked."""

    def __init__(
        self, machine: Machine, host: str = "127.0.0.1", port: int = 0, *, tls: bool = True, username: str = "admin",
        password: str = "admin", folder: Path | None = None, max_sessions: int = 16,
    ) -> None:  # fmt: skip
        self.machine = machine
        self.service = Service(machine, username, password, max_sessions)
        self.faults = Faults()
        self.requests: list[tuple[str, str, int]] = []
        self._http = _Server((host, port), _Handler)
        self._http.bmc = self
        self._thread: threading.Thread | None = None
        self._open: set[socket.socket] = set()
        self.ca_path = ""
        if tls:
            if folder is None:
                raise ValueError("tls needs a folder for the certificate")
            made, key = certificate.write(folder, host)
            self._http.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._http.context.load_cert_chain(made, key)
            self.ca_path = str(made)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        """Its address."""
        return f"{'https' if self.ca_path else 'http'}://{self._http.server_address[0]!s}:{self.port}"

    def start(self) -> Self:
        """Serve in a thread."""
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop serving, and end open connections."""
        self._http.shutdown()
        self._http.server_close()
        for sock in list(self._http.open):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Reply | None:
        """The answer with today's faults; None where the connection breaks instead."""
        faults = self.faults
        if faults.dead or faults.hang:
            while faults.dead or faults.hang:
                time.sleep(0.05)
            return None
        if faults.slow_s:
            time.sleep(faults.slow_s)
        if faults.resets:
            faults.resets -= 1
            return None
        if faults.redirect:
            return Reply(302, None, {"Location": faults.redirect + target})
        if faults.statuses:
            after = {} if faults.retry_after is None else {"Retry-After": str(faults.retry_after)}
            return Reply(faults.statuses.popleft(), {"error": {"code": "Base.1.12.GeneralError", "message": "try later"}}, after)
        reply = self.service.answer(method, target, headers, body)
        if faults.stale_etag and "ETag" in reply.headers:
            reply.headers["ETag"] = '"stale"'
            reply.document = {**(reply.document or {}), "@odata.etag": '"stale"'}
            faults.stale_etag = False
        if faults.die_after_patch and method == "PATCH" and reply.status < 300:
            faults.dead = True
            return None
        return reply


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    bmc: BmcServer
    context: ssl.SSLContext | None = None

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.open: set[socket.socket] = set()
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """As of socketserver: http.server would look its own name up, which takes seconds without DNS."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "bmc", int(self.server_address[1])

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 120
    server: _Server

    def setup(self) -> None:
        """TLS here, in the connection's own thread: a slow handshake must not hold up the others."""
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.server.context is not None:
            self.request.settimeout(self.timeout)
            self.request = self.server.context.wrap_socket(self.request, server_side=True)
        self.server.open.add(self.request)
        super().setup()

    def finish(self) -> None:
        """Forget the connection."""
        self.server.open.discard(self.request)
        with contextlib.suppress(OSError):
            super().finish()

    def _do(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        bmc = self.server.bmc
        try:
            reply = bmc.answer(self.command, self.path, dict(self.headers.items()), body)
        except Exception as err:  # as a real BMC does: the client gets an answer, whatever it was
            reply = Reply(500, error(("Base.1.12.InternalError", [f"{type(err).__name__}: {err}"], "")))
        bmc.requests.append((self.command, self.path, reply.status if reply else 0))
        if reply is None:
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            return
        self._send(reply)

    def _send(self, reply: Reply) -> None:
        data = reply.text.encode() if reply.document is None else json.dumps(reply.document).encode()
        self.send_response(reply.status)
        self.send_header("OData-Version", "4.0")
        self.send_header("Cache-Control", "no-cache")
        if data:
            self.send_header("Content-Type", "application/json; charset=utf-8" if reply.document is not None else reply.kind)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if reply.status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_HEAD = do_POST = do_PATCH = do_PUT = do_DELETE = _do

    def version_string(self) -> str:
        """The Server header."""
        return "nearmetal"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: `requests` has it."""
