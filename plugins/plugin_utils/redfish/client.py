# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One BMC: a session, requests that are repeated where that is safe, and errors that an operator can act on."""

from __future__ import annotations

import contextlib
import random
import re
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from .access import Access
from .errors import BmcError, said

ROOT = "/redfish/v1/"
SESSIONS = ROOT + "SessionService/Sessions"
PAUSES = (0.5, 1.0, 2.0)
"""Seconds before a repeated request, give or take a quarter, where the BMC does not name a time."""
LONGEST_PAUSE = 60.0
BUSY = (429, 503)
"""The request was not looked at: any may be repeated."""
BROKEN = (500, 502, 504)
"""Something went wrong on the way: only what changes nothing is repeated."""
REPEATABLE = ("GET", "HEAD", "DELETE")
STALE = (412, 428)
UNTRUSTED = (
    "the certificate of {uri} is not trusted ({why}): name the file of its authority, or of the certificate itself, "
    "in bios_ca_path"
)


class Answer(NamedTuple):
    """What came back: status, headers (any case), body (None where it is no JSON object)."""

    status: int
    headers: Mapping[str, str]
    body: dict[str, Any] | None


class Bmc:
    """A session with one BMC, as a context manager: logs out and closes whatever happens. `root` is its service root."""

    def __init__(self, access: Access, sleep: Callable[[float], None] = time.sleep) -> None:
        self.access = access
        self.uri = access.baseuri
        self.root: dict[str, Any] = {}
        self._sleep = sleep
        self._auth: Any = None
        self._sessions = ""

    def __enter__(self) -> Bmc:
        try:
            from . import transport
        except ImportError as err:
            raise BmcError("missing", f"a BMC is asked through the Python package sushy, which {sys.executable} lacks ({err}): "
                           "pip install sushy, or install the package nearmetal, which brings it") from err  # fmt: skip
        self._transport = transport
        self._connector = transport.Connector(self.access)
        try:
            self.root = self.get(ROOT)
            self._login()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the session, and the connection."""
        if self._auth is not None:
            with contextlib.suppress(self._transport.SushyError, OSError):
                self._auth.close()
            self._auth = None
        self._connector.close()

    def _login(self) -> None:
        """A session; basic authentication only where the BMC has no sessions: a second try could lock the account."""
        if not self.access.username:
            return
        links = self.root.get("Links")
        sessions = link(links, "Sessions") if isinstance(links, Mapping) else ""
        if not sessions and not link(self.root, "SessionService"):
            self._connector.set_http_basic_auth(self.access.username, self.access.password)
            return
        self._sessions = sessions or SESSIONS
        session = self._transport.SessionAuth(self.access.username, self.access.password)
        session.set_context(self, self._connector)
        try:
            session.authenticate()
        except BmcError as err:
            if err.status not in (404, 405, 501):
                raise
            self._connector.set_auth(None)
            self._connector.set_http_basic_auth(self.access.username, self.access.password)
            return
        self._auth = session

    def create_session(self, username: str, password: str) -> tuple[str, str]:
        """What sushy's SessionAuth asks of the root: (token, path of the session)."""
        answer = self._repeat("POST", self._sessions, {"UserName": username, "Password": password}, {})
        token = answer.headers.get("X-Auth-Token") or ""
        if not token:
            raise BmcError("answer", f"{self.uri} made a session but sent no token")
        where = answer.headers.get("Location") or (answer.body or {}).get("@odata.id") or ""
        return token, (urlsplit(str(where)).path or None)  # type: ignore[return-value]

    def get(self, path: str) -> dict[str, Any]:
        """The resource at a path. Raises BmcError."""
        return self.fetch("GET", path).body or {}

    def fetch(self, method: str, path: str, body: Mapping[str, Any] | None = None, etag: str = "") -> Answer:
        """One request. A session that has ended meanwhile is begun anew, once. Raises BmcError."""
        headers = {"If-Match": etag} if etag else {}
        path = self.local(path)
        try:
            return self._repeat(method, path, body, headers)
        except BmcError as err:
            if err.kind != "credentials" or err.status != 401 or self._auth is None:
                raise
        self._auth.refresh_session()
        return self._repeat(method, path, body, headers)

    def patch(self, path: str, body: Mapping[str, Any], etag: str = "") -> Answer:
        """PATCH under the ETag that was read; where the resource has another by now, once more under that one."""
        try:
            return self.fetch("PATCH", path, body, etag)
        except BmcError as err:
            if err.status not in STALE:
                raise
        fresh = self.fetch("GET", path)
        return self.fetch("PATCH", path, body, etag_of(fresh) or "*")

    def local(self, path: str) -> str:
        """The path of a link; a link to elsewhere is refused, as the token would go there."""
        parts = urlsplit(path)
        here = urlsplit(self.uri)
        if parts.netloc and (parts.hostname, parts.port) != (here.hostname, here.port) or not parts.path.startswith("/"):
            raise BmcError("redirect", f"{self.uri} points to {path[:100]!r}, which is not on it: refused")
        return parts.path + (f"?{parts.query}" if parts.query else "")

    def _repeat(self, method: str, path: str, body: Mapping[str, Any] | None, headers: Mapping[str, str]) -> Answer:
        for pause in (*PAUSES, None):
            try:
                return self._once(method, path, body, headers)
            except _Again as again:
                if pause is None or not again.safe and method not in REPEATABLE:
                    raise again.error from again
                wait = pause * random.uniform(0.75, 1.25) if again.after is None else again.after
            self._sleep(min(wait, LONGEST_PAUSE))
        raise AssertionError("the last try returns or raises")

    def _once(self, method: str, path: str, body: Mapping[str, Any] | None, headers: Mapping[str, str]) -> Answer:
        try:
            self._connector._op(method, path, data=body, headers=dict(headers))
        except self._transport.HTTPError:
            pass  # the answer says more
        except self._transport.SushyError as err:
            raise self._lost(err) from err
        response = self._connector.last
        if response is None:
            raise BmcError("answer", f"{self.uri} gave no answer to {method} {path}")
        answer = Answer(response.status_code, response.headers, _json(response))
        if answer.status >= 300:
            raise self._refusal(method, path, answer)
        if method == "GET" and answer.body is None:
            raise BmcError("answer", f"what {self.uri} sends for {path} is no Redfish resource")
        return answer

    def _refusal(self, method: str, path: str, answer: Answer) -> Exception:
        """The exception for a status that is no success."""
        status, words = answer.status, self.clean(said(answer.body))
        if status < 400:
            where = urlsplit(str(answer.headers.get("Location") or ""))
            target = f"{where.scheme}://{where.netloc}{where.path}" if where.netloc else where.path
            return BmcError("redirect", f"{self.uri} redirects {path} to {target or 'elsewhere'}: refused, as the password would go "
                            "along; give the address that it redirects to in bios_baseuri", status)  # fmt: skip
        login = bool(self._sessions) and path == self._sessions and method == "POST"
        if status == 401 or login and status in (400, 403):
            return BmcError("credentials", f"{self.uri} refuses the login of {self.access.username or 'nobody'}: check bios_username "
                            "and bios_password", status)  # fmt: skip
        text = f"{self.uri} answers {status} to {method} {path}" + (f": {words}" if words else "")
        if status in BUSY or status in BROKEN:
            return _Again(BmcError("busy", text, status), safe=status in BUSY, after=_retry_after(answer.headers))
        kind = {403: "credentials", 404: "not_found"}.get(status, "refused")
        return BmcError(kind, text, status)

    def _lost(self, error: Exception) -> Exception:
        """The exception for a request without an answer."""
        cause = error.__context__ or error
        text = self.clean(_reason(cause))
        kind = type(cause).__name__
        if "SSL" in kind or "CERTIFICATE" in text:
            if "CERTIFICATE_VERIFY_FAILED" in text or "certificate verify failed" in text:
                why = text.partition("certificate verify failed: ")[2].partition(" (_ssl")[0] or text
                return BmcError("certificate", UNTRUSTED.format(uri=self.uri, why=why))
            return BmcError("certificate", f"no TLS with {self.uri}: {text}")
        if "Timeout" in kind:
            if "Connect" in kind:
                return BmcError("unreachable", f"no answer from {self.uri} in {min(self.access.timeout, 10):.0f} s")
            return BmcError("unreachable", f"{self.uri} says nothing for {self.access.timeout:.0f} s (bios_timeout)")
        return _Again(BmcError("unreachable", f"{self.uri} is not reached: {text}"), safe=False, after=None)

    def last(self) -> bytes:
        """The body of the latest answer, as it came."""
        response = self._connector.last
        return response.content if response is not None else b""

    def clean(self, text: str) -> str:
        """Text without the password, should a BMC repeat it."""
        secret = self.access.password
        return text.replace(secret, "***") if len(secret) > 2 else text


class _Again(Exception):
    """Worth another try; safe: whatever the method."""

    def __init__(self, error: BmcError, safe: bool, after: float | None) -> None:
        super().__init__(str(error))
        self.error, self.safe, self.after = error, safe, after


def link(resource: Any, name: str) -> str:
    """The path of a reference in a resource; "" where it has none."""
    value = resource.get(name) if isinstance(resource, Mapping) else None
    found = value.get("@odata.id") if isinstance(value, Mapping) else None
    return found if isinstance(found, str) else ""


def etag_of(answer: Answer) -> str:
    """The ETag of a resource, from its header or body."""
    return str(answer.headers.get("ETag") or (answer.body or {}).get("@odata.etag") or "")


def _json(response: Any) -> dict[str, Any] | None:
    try:
        found = response.json() if response.content else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    text = str(headers.get("Retry-After") or "")
    return float(text) if text.isdigit() else None


def _reason(error: BaseException) -> str:
    """The innermost words of requests and urllib3, which wrap each other."""
    seen: list[BaseException] = []
    while error not in seen:
        seen.append(error)
        inner = getattr(error, "reason", None) or next((a for a in error.args if isinstance(a, BaseException)), None)
        if not isinstance(inner, BaseException):
            break
        error = inner
    text = str(getattr(error, "strerror", None) or error)
    text = text.rpartition(">: ")[2].rpartition("Failed to establish a new connection: ")[2]
    return re.sub(r"^\[Errno -?\d+\] ", "", text) or type(error).__name__
