# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wanted of a host's fabric, and what is done about it. Pure data.

`Desired` names PFs by PCI address, VFs by PF and index; netdev names of PFs and representors stand nowhere in it,
as a new kernel may rename ports. None means "leave it as it is". `Desired` is also what is written for the boot
units and for the guard, as JSON.

Targets of an `Op`: "0000:08:00.0" a PF, "0000:08:00.0/vf3" a VF, "0000:08:00.0/rep3" its representor, else the name
of a bond or bridge. VF addresses and representor names exist only once the VFs are made, so the executor finds them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

VERSION = 1
UNBOUND = "unbound"
"""Driver of a VF that shall have none; "" is the kernel's choice."""

BRIDGE, OVS, EXTERNAL, NONE = "bridge", "ovs", "external", "none"

EARLY, LATE = "early", "late"
"""Before the network comes up at boot; after it, gated on the LAG."""

VF_LAG, MULTIPORT, PLAIN = "vf_lag", "multiport", "plain"
"""What a bond is: offloaded by mlx5 as VF LAG; multiport eswitch (no bond at all); a bond and nothing more."""


class FabricError(ValueError):
    """A document that is no Desired; the text says what is wrong."""


@dataclass(frozen=True)
class DesiredVf:
    """One VF. Rates in Mbit/s, 0 is no limit; vlan 0 is none."""

    index: int
    driver: Optional[str] = None
    mac: Optional[str] = None
    vlan: Optional[int] = None
    qos: Optional[int] = None
    proto: Optional[str] = None  # "802.1Q", "802.1ad"
    trust: Optional[bool] = None
    spoofchk: Optional[bool] = None
    min_tx_rate: Optional[int] = None
    max_tx_rate: Optional[int] = None
    link_state: Optional[str] = None
    node_guid: Optional[str] = None
    port_guid: Optional[str] = None
    mtu: Optional[int] = None


@dataclass(frozen=True)
class DesiredPf:
    """One PF. `vf` has an entry for each VF of which something is wanted."""

    address: str
    vfs: Optional[int] = None
    autoprobe: Optional[bool] = None
    mtu: Optional[int] = None
    up: Optional[bool] = None
    eswitch: Optional[str] = None  # "legacy", "switchdev"
    steering: Optional[str] = None  # "smfs", "dmfs"
    multiport: Optional[bool] = None
    hw_tc_offload: Optional[bool] = None
    vf: Tuple[DesiredVf, ...] = ()


@dataclass(frozen=True)
class Port:
    """A VF's representor in the forwarder. vlan 0: untagged traffic of no VLAN; None: left alone."""

    pf: str
    index: int
    vlan: Optional[int] = None


@dataclass(frozen=True)
class Forwarding:
    """Who forwards between uplink and VFs in switchdev mode.

    type: NONE (nobody), BRIDGE, OVS (name is the bridge), EXTERNAL (owner names who does it, e.g. "ovn-kubernetes").
    addresses: of the bridge's own device. absent: the bridge is taken down, ports included.
    """

    type: str = NONE
    name: str = ""
    owner: str = ""
    ports: Tuple[Port, ...] = ()
    addresses: Tuple[str, ...] = ()
    absent: bool = False


@dataclass(frozen=True)
class DesiredBond:
    """A bond of PFs and what it is for (kind: VF_LAG, MULTIPORT, PLAIN). MULTIPORT: no bond device, `name` only names it."""

    name: str
    pfs: Tuple[str, ...]
    kind: str = VF_LAG
    mode: str = "active-backup"
    miimon: Optional[int] = 100
    lacp_rate: Optional[str] = None
    xmit_hash_policy: Optional[str] = None
    mtu: Optional[int] = None
    addresses: Tuple[str, ...] = ()
    owner: str = "auto"
    steering: Optional[str] = None  # for its PFs
    absent: bool = False
    forwarding: Forwarding = field(default_factory=Forwarding)


@dataclass(frozen=True)
class Desired:
    """The wish for a whole host: PFs, and the bonds over them. PFs that are not listed are left alone."""

    pfs: Tuple[DesiredPf, ...] = ()
    bonds: Tuple[DesiredBond, ...] = ()
    lag_timeout: int = 60  # seconds to wait for the LAG

    def pf(self, address: str) -> DesiredPf:
        """The wish for a PF; one that leaves all alone where it is not listed."""
        return next((p for p in self.pfs if p.address == address), DesiredPf(address))

    def bond_of(self, address: str) -> Optional[DesiredBond]:
        """The bond (absent ones too) that lists the PF."""
        return next((b for b in self.bonds if address in b.pfs), None)


class Op(NamedTuple):
    """One thing to do. kind: see apply.py; text: for the plan and for errors."""

    kind: str
    target: str
    value: Any
    phase: str  # EARLY, LATE
    disruption: str  # of model.DISRUPTIONS
    text: str

    def as_dict(self) -> Dict[str, Any]:
        """The form that travels."""
        return dict(self._asdict())


BOND_KINDS = frozenset((
    "bond_add", "bond_set", "bond_del", "bond_up", "bond_mtu", "enslave", "release", "release_dev", "relag",
))  # fmt: skip
"""Ops on the bond device itself: where another owner makes the bond at boot, these are its business."""


def vf_target(pf: str, index: int) -> str:
    """The target of a VF."""
    return "%s/vf%d" % (pf, index)


def rep_target(pf: str, index: int) -> str:
    """The target of a VF's representor."""
    return "%s/rep%d" % (pf, index)


def split_target(target: str) -> Tuple[str, str, int]:
    """("0000:08:00.0", "vf" | "rep", 3); ("name", "", -1) for what has no index."""
    head, _slash, tail = target.partition("/")
    for word in ("vf", "rep"):
        if tail.startswith(word) and tail[len(word) :].isdecimal():
            return head, word, int(tail[len(word) :])
    return target, "", -1


def to_json(desired: Desired) -> str:
    """Stable text, one trailing newline."""
    return json.dumps(dict(asdict(desired), version=VERSION), indent=1, sort_keys=True) + "\n"


def from_json(text: str) -> Desired:
    """The Desired of `to_json`. Raises FabricError for anything else."""
    try:
        data = json.loads(text)
    except ValueError as err:
        raise FabricError("no JSON: %s" % err) from None
    if not isinstance(data, dict) or data.pop("version", None) != VERSION:
        raise FabricError("no fabric document of version %d" % VERSION)
    try:
        return Desired(
            tuple(_pf(p) for p in data.pop("pfs")), tuple(_bond(b) for b in data.pop("bonds")), **data
        )
    except (TypeError, KeyError, AttributeError) as err:
        raise FabricError("fabric document: %s" % err) from None


def _pf(data: Mapping[str, Any]) -> DesiredPf:
    values = dict(data)
    return DesiredPf(vf=tuple(DesiredVf(**v) for v in values.pop("vf")), **values)


def _bond(data: Mapping[str, Any]) -> DesiredBond:
    values = dict(data)
    way = dict(values.pop("forwarding"))
    ports = tuple(Port(**p) for p in way.pop("ports"))
    addresses: List[str] = way.pop("addresses")
    forwarding = Forwarding(ports=ports, addresses=tuple(addresses), **way)
    pfs, own = tuple(values.pop("pfs")), tuple(values.pop("addresses"))
    return DesiredBond(pfs=pfs, addresses=own, forwarding=forwarding, **values)
