# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How to reach a BMC: options of a task, or the host's variables bios_*."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from .errors import BmcError

NAMES = ("baseuri", "username", "password", "validate_certs", "ca_path", "timeout")
"""Connection options; with the prefix bios_ the host's variables."""


@dataclass(frozen=True)
class Access:
    """Where a BMC is and as whom to log in. The password is not in its repr."""

    baseuri: str
    username: str = ""
    password: str = field(default="", repr=False)
    validate_certs: bool = True
    ca_path: str = ""
    timeout: float = 30.0
    proxies: bool = False  # those of the environment: a BMC is in a network of its own


def access(options: Mapping[str, Any]) -> Access:
    """Access from checked options without prefix. Raises BmcError (options) for an address that is none."""
    return Access(
        _address(str(options.get("baseuri") or "")), str(options.get("username") or ""),
        str(options.get("password") or ""), options.get("validate_certs") is not False,
        str(options.get("ca_path") or ""), float(options.get("timeout") or 30),
    )  # fmt: skip


def _address(text: str) -> str:
    """https://HOST[:PORT] of what an operator writes."""
    if not text:
        raise BmcError("options", "no BMC is given: set bios_baseuri (https://ADDRESS)")
    try:
        parts = urlsplit(text if "://" in text else f"https://{text}")
        port = parts.port
    except ValueError:
        raise BmcError("options", "bios_baseuri is no address of a BMC: write https://ADDRESS or https://ADDRESS:PORT") from None
    if parts.username or parts.password:
        raise BmcError("options", "bios_baseuri holds a user or password: use bios_username and bios_password")
    host = parts.hostname or ""
    known = parts.path.rstrip("/") in ("", "/redfish", "/redfish/v1") and not parts.query
    if parts.scheme not in ("https", "http") or not host or not known:
        raise BmcError("options", f"bios_baseuri={text!r} is no address of a BMC: write https://ADDRESS or https://ADDRESS:PORT")
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}" + (f":{port}" if port else "")
