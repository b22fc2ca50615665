# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The layer on `sushy`: one kept connection per BMC, no retries of its own, no redirects, shared TLS contexts.

Imported only where a BMC is asked, as sushy is not needed otherwise.
"""

from __future__ import annotations

import functools
import logging
import os
import ssl
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from sushy import auth, connector, exceptions

from .access import Access
from .errors import BmcError

CONNECT_S = 10.0
"""Seconds for a TCP connection: a BMC is near."""

SushyError = exceptions.SushyError
HTTPError = exceptions.HTTPError
SessionAuth = auth.SessionAuth

# Its warnings would be written over the output of ansible; what matters of them comes as exceptions.
logging.getLogger("sushy").addHandler(logging.NullHandler())
logging.getLogger("sushy").propagate = False


@functools.lru_cache(maxsize=64)
def tls(ca_path: str, verify: bool) -> ssl.SSLContext:
    """The context for all BMCs of one authority: loading certificates costs more than a request."""
    if not verify:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    try:
        folder = os.path.isdir(ca_path)
        context = ssl.create_default_context(
            cafile=None if folder or not ca_path else ca_path, capath=ca_path if folder else None
        )
    except (OSError, ssl.SSLError) as err:
        reason = getattr(err, "strerror", None) or str(err)
        raise BmcError("certificate", f"bios_ca_path={ca_path!r} cannot be used: {reason}") from err
    # Python 3.13 asks of certificates what those of BMCs rarely have; a BMC's own certificate may be given as its authority.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


class _Adapter(HTTPAdapter):
    """One connection, with a context that is ready."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        super().__init__(pool_connections=1, pool_maxsize=1)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs, ssl_context=self._context)

    def close(self) -> None:
        """Close the connection now: urllib3 leaves that to the garbage collector, and a BMC has few connections."""
        pools = self.poolmanager.pools
        for key in list(pools.keys()):
            pool = pools.get(key)
            if pool is not None:
                pool.close()
        super().close()

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        """Keep the context: requests would load its own authorities into the context for every connection."""
        conn.cert_reqs = "CERT_REQUIRED" if verify else "CERT_NONE"


class Connector(connector.Connector):
    """sushy's, for one try: what may be repeated is decided by the caller, who knows what was sent."""

    def __init__(self, access: Access) -> None:
        self.last: requests.Response | None = None
        super().__init__(
            access.baseuri, verify=access.validate_certs, response_callback=self._saw, server_side_retries=1,
            default_request_timeout=access.timeout, connect_timeout=min(access.timeout, CONNECT_S),
        )  # fmt: skip
        session: requests.Session = self._session
        session.trust_env = access.proxies
        session.headers.pop("Connection", None)  # kept: a TLS handshake costs a BMC more than all else
        secure = access.baseuri.startswith("https:")
        adapter = _Adapter(tls(access.ca_path, access.validate_certs) if secure else None)
        for scheme in ("https://", "http://"):
            session.mount(scheme, adapter)

    def _saw(self, response: requests.Response) -> None:
        self.last = response

    def _op(self, method: str, path: str = "", **more: Any) -> Any:
        self.last = None
        more.update(server_side_retries_left=0, allow_reauth=False, allow_redirects=False)
        return super()._op(method, path, **more)
