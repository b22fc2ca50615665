# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read one BMC or many into state["bmc"]; errors are a part of the document."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .access import access
from .client import Bmc
from .errors import BmcError
from .reading import empty, read
from .registry import Registries

CONNECTIONS = 64
"""BMCs asked at once: each waits for its BMC nearly all of the time."""

Document = dict[str, Any]
Options = Mapping[str, Any]
NeedsRegistry = Callable[[Options, Document], bool]


def read_bmc(
    options: Options, needs_registry: NeedsRegistry | None = None, registries: Registries | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Document:  # fmt: skip
    """The document of one BMC; where it could not be read, `error` says why. Never raises BmcError.

    options: checked options of the role bios without prefix. needs_registry: whether the registry is worth reading.
    """
    uri = str(options.get("baseuri") or "")
    try:
        to = access(options)
        uri = to.baseuri
        with Bmc(to, sleep) as bmc:
            document = read(bmc, "secure_boot" in (options.get("settings") or {}))
            if needs_registry is not None and needs_registry(options, document):
                document["registry"] = (registries or Registries()).of(bmc, document)
            return document
    except BmcError as err:
        return empty(uri if err.kind != "options" else "", str(err))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as err:  # of one BMC: the others go on
        return empty(uri, f"{uri} sends what is no proper Redfish ({type(err).__name__}: {str(err)[:100]})")


def read_many(
    hosts: Mapping[str, Options], connections: int = CONNECTIONS, needs_registry: NeedsRegistry | None = None,
    registries: Registries | None = None,
) -> dict[str, Document]:  # fmt: skip
    """Documents by host, at most so many BMCs at once."""
    if not hosts:
        return {}
    shared = registries or Registries()
    with ThreadPoolExecutor(max(1, min(connections, len(hosts)))) as pool:
        read_one = pool.map(lambda options: read_bmc(options, needs_registry, shared), hosts.values())
        return dict(zip(hosts, read_one))
