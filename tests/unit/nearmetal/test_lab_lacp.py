"""LACP as the switch speaks it."""

from __future__ import annotations

import struct

from nearmetal.lab import lacp

HOST = bytes.fromhex("525400010101")


def pdu(state: int = 0x05, port: int = 1, key: int = 15) -> bytes:
    """What Linux's bonding driver sends at first: nothing known of the partner."""
    actor = struct.pack(">H6sHHHB3x", 65535, HOST, key, 255, port, state)
    partner = struct.pack(">H6sHHHB3x", 65535, bytes(6), 1, 255, 1, 0)
    body = b"\x01\x14" + actor + b"\x02\x14" + partner + b"\x03\x10" + bytes(14) + bytes(52)
    return lacp.SLOW_PROTOCOLS + HOST + b"\x88\x09\x01\x01" + body


def fields(frame: bytes) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """(actor, partner) of an LACPDU, each (priority, system, key, port priority, port, state)."""
    return struct.unpack(">H6sHHHB3x", frame[18:36]), struct.unpack(">H6sHHHB3x", frame[38:56])


def bundles() -> tuple[lacp.Bundles, list[float]]:
    now = [0.0]
    return lacp.Bundles({0: 0, 1: 0, 2: 2, 3: 2}, lambda: now[0]), now


def test_the_answer_knows_its_partner_and_is_in_sync() -> None:
    frame = lacp.answer(lacp.actor_of(pdu()) or b"", 1, 2)
    assert len(frame) == 124
    actor, partner = fields(frame)
    assert actor[1] == lacp.SYSTEM and actor[2] == 1 and actor[4] == 2
    assert actor[5] == 0x3D, "active, may be bundled, in sync, collecting, distributing; long timeout"
    assert partner == (65535, HOST, 15, 255, 1, 0x05)
    assert fields(lacp.answer(lacp.actor_of(pdu(state=0x07)) or b"", 1, 2))[0][5] == 0x3F, "short as the host asked"


def test_ports_of_a_node_get_one_key_and_other_nodes_another() -> None:
    switch, _now = bundles()
    keys = [fields(switch.take(pdu(), port) or b"")[0][2] for port in range(4)]
    assert keys[0] == keys[1] != keys[2] == keys[3]


def test_other_frames_are_none_of_its_business() -> None:
    switch, _now = bundles()
    assert switch.take(b"\xff" * 6 + HOST + b"\x08\x00" + bytes(120), 0) is None
    assert switch.take(pdu()[:60], 0) is None
    marker = bytearray(pdu())
    marker[14] = 2
    assert switch.take(bytes(marker), 0) is None
    assert not switch.bundled(0)


def test_a_flood_reaches_each_bundle_once_and_never_its_sender() -> None:
    switch, _now = bundles()
    for port in (0, 1, 2, 3):
        switch.take(pdu(), port)
    switch.heard(3)
    assert switch.one_of_each([0, 1, 2, 3], 0) == [3]
    switch.heard(2)
    assert switch.one_of_each([0, 1, 2, 3], 1) == [2]


def test_without_lacp_every_port_stands_alone() -> None:
    switch, _now = bundles()
    assert switch.one_of_each([0, 1, 2, 3], 0) == [1, 2, 3]


def test_a_port_that_fell_silent_is_no_part_any_more() -> None:
    switch, now = bundles()
    switch.take(pdu(state=0x07), 0)
    switch.take(pdu(), 1)
    now[0] = 4
    assert not switch.bundled(0) and switch.bundled(1)
    now[0] = 91
    assert not switch.bundled(1)
    switch.take(pdu(), 1)
    switch.forget(1)
    assert not switch.bundled(1)
