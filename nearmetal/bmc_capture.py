"""What a capture keeps of a BMC: JSON files named after their resources, without serials, addresses and people.

`nearmetal lab bmc --from FOLDER` serves them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from nearmetal.scrub import Scrubber

FOLDER = "redfish"
PRIVATE = {
    "serials": re.compile(r"(?i)serial|asset_?tag|service_?tag|^sku$|chassis_?tag|express_?service"),
    "hostnames": re.compile(r"(?i)host_?name|fqdn|server_?name|^admin(name|email|phone|otherinfo)$|^server(name|otherinfo)"),
    "uuids": re.compile(r"(?i)uuid|guid"),
    "macs": re.compile(r"(?i)mac_?addr|permanent_?mac|wwn|wwpn|wwnn"),
}
BARE_MAC = re.compile(r"(?<![0-9A-Za-z])(?=[0-9]*[A-F])[0-9A-F]{12}(?![0-9A-Za-z])")
"""As in names of Lenovo's attributes: MellanoxNetworkAdapter_A088C2C36F6E__Slot15."""
VERSION = re.compile(r"(?i)version|@odata|odata\.")
"""Four numbers with dots in them are no address."""


def files(documents: Mapping[str, Mapping[str, Any]], scrubber: Scrubber) -> dict[str, str | bytes]:
    """Contents by path in the archive."""
    platform = _platform(documents)
    made: dict[str, str | bytes] = {}
    for path, document in documents.items():
        name = path.removeprefix("/redfish/v1/").strip("/").removesuffix(".json").replace("/", "_")
        name = re.sub(r"^systems_", "Systems_", name)
        made[f"/{FOLDER}/{platform}-{name}.json"] = json.dumps(_clean("", document, scrubber), indent=1) + "\n"
    return made


def _platform(documents: Mapping[str, Mapping[str, Any]]) -> str:
    maker = next((str(d["Manufacturer"]) for d in documents.values() if d.get("Manufacturer")), "")
    word = re.sub(r"[^a-z0-9]+", "", maker.lower().split(" ")[0]) if maker else ""
    return word or "bmc"


def _clean(key: str, value: Any, scrubber: Scrubber) -> Any:
    if isinstance(value, Mapping):
        return {_bare(str(k), scrubber): _clean(str(k), v, scrubber) for k, v in value.items()}
    if isinstance(value, list):
        return [_clean(key, v, scrubber) for v in value]
    if not isinstance(value, str):
        return value
    if value and any(kind in scrubber.kinds and words.search(key) for kind, words in PRIVATE.items()):
        return "" if value.isdigit() or not re.fullmatch(r"(Enabled|Disabled|Yes|No|Auto|None)", value) else value
    return _bare(value if VERSION.search(key) else scrubber.line(value), scrubber)


def _bare(text: str, scrubber: Scrubber) -> str:
    if "macs" not in scrubber.kinds:
        return text
    return BARE_MAC.sub(lambda m: scrubber.known("mac", m[0], "02000000%04X"), text)
