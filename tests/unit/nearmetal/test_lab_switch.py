"""The rack's switch: learning, VLANs, stream framing, and the process end to end."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmetal.lab.switch import AGE_S, QUEUE, Port, Switch, Table, addresses, split_frames

A, B, C = (bytes([2, 0, 0, 0, 0, n]) for n in (1, 2, 3))
EVERYONE = b"\xff" * 6


def frame(to: bytes, sender: bytes, vlan: int | None = None, payload: bytes = b"hello") -> bytes:
    """An Ethernet frame, tagged where a VLAN is given (priority bits set: they are no part of the id)."""
    tag = b"" if vlan is None else b"\x81\x00" + (0xE000 | vlan).to_bytes(2, "big")
    return to + sender + tag + b"\x08\x00" + payload


def packed(data: bytes) -> bytes:
    """As QEMU's stream backend sends it."""
    return len(data).to_bytes(4, "big") + data


def test_unknown_goes_everywhere_known_goes_home() -> None:
    table = Table()
    assert table.ports_for(frame(B, A), 0, [0, 1, 2]) == [1, 2]
    assert table.ports_for(frame(A, B), 1, [0, 1, 2]) == [0]
    assert table.ports_for(frame(B, A), 0, [0, 1, 2]) == [1]
    assert table.ports_for(frame(EVERYONE, A), 0, [0, 1, 2]) == [1, 2]


def test_an_address_that_moves_is_found_at_its_new_port() -> None:
    table = Table()
    table.ports_for(frame(EVERYONE, A), 0, [0, 1, 2])
    table.ports_for(frame(EVERYONE, A), 2, [0, 1, 2])
    assert table.ports_for(frame(A, B), 1, [0, 1, 2]) == [2]


def test_a_frame_never_returns_to_its_port() -> None:
    table = Table()
    table.ports_for(frame(EVERYONE, A), 0, [0, 1])
    assert table.ports_for(frame(A, B), 0, [0, 1]) == []


def test_addresses_age_and_are_forgotten_with_their_port() -> None:
    now = [0.0]
    table = Table(lambda: now[0])
    table.ports_for(frame(EVERYONE, A), 0, [0, 1, 2])
    now[0] = AGE_S + 1
    assert table.ports_for(frame(A, B), 1, [0, 1, 2]) == [0, 2]
    table.ports_for(frame(EVERYONE, A), 0, [0, 1, 2])
    table.forget(0)
    assert table.ports_for(frame(A, B), 1, [0, 1, 2]) == [0, 2]


def test_each_vlan_learns_for_itself() -> None:
    table = Table()
    table.ports_for(frame(EVERYONE, A, vlan=5), 0, [0, 1, 2])
    assert table.ports_for(frame(A, B, vlan=5), 1, [0, 1, 2]) == [0]
    assert table.ports_for(frame(A, B, vlan=6), 1, [0, 1, 2]) == [0, 2]
    assert table.ports_for(frame(A, B), 1, [0, 1, 2]) == [0, 2]


@pytest.mark.parametrize(("last", "ports"), [(0x02, []), (0x0E, []), (0x10, [1])])
def test_link_local_frames_stay_on_their_link(last: int, ports: list[int]) -> None:
    assert Table().ports_for(frame(bytes.fromhex("0180c20000") + bytes([last]), A), 0, [0, 1]) == ports


def test_a_runt_is_dropped_and_a_group_address_is_no_sender() -> None:
    table = Table()
    assert table.ports_for(b"short", 0, [0, 1]) == []
    table.ports_for(frame(B, EVERYONE), 0, [0, 1, 2])
    assert table.ports_for(frame(EVERYONE, B), 1, [0, 1, 2]) == [0, 2]


@given(vlan=st.integers(1, 4094))
def test_vlan_id_without_its_priority(vlan: int) -> None:
    assert addresses(frame(B, A, vlan)) == (vlan.to_bytes(2, "big") + B, vlan.to_bytes(2, "big") + A)


@given(frames=st.lists(st.binary(max_size=200), max_size=8), cut=st.integers(1, 50))
def test_frames_come_out_whole_however_the_stream_is_cut(frames: list[bytes], cut: int) -> None:
    stream = b"".join(map(packed, frames))
    buffer, got = bytearray(), []
    for i in range(0, len(stream), cut):
        buffer += stream[i : i + cut]
        got += split_frames(buffer)
    assert got == frames and not buffer


def test_what_is_no_stream_of_frames_is_refused() -> None:
    with pytest.raises(ValueError, match="frame of"):
        split_frames(bytearray(b"GET / HTTP/1.1\r\n"))


def test_frames_for_a_slow_port_are_dropped_whole() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        port = Port(0, ours)
        big = bytes(60_000)
        for _ in range(QUEUE // len(big) + 50):
            port.queue(big)
        assert len(port.outbox) < QUEUE + len(packed(big))
        assert len(port.outbox) % len(packed(big)) == 0


@pytest.fixture
def wires(tmp_path: Path) -> tuple[Switch, list[socket.socket]]:
    """A switch with three connected ports."""
    paths = [tmp_path / str(n) for n in range(3)]
    switch = Switch(paths)
    ends = []
    for path in paths:
        end = socket.socket(socket.AF_UNIX)
        end.settimeout(2)
        end.connect(str(path))
        ends.append(end)
        switch.serve_once(1)
    return switch, ends


def test_forwarding_through_sockets(wires: tuple[Switch, list[socket.socket]]) -> None:
    switch, ends = wires
    ends[0].sendall(packed(frame(EVERYONE, A)))
    switch.serve_once(1)
    assert ends[1].recv(100) == ends[2].recv(100) == packed(frame(EVERYONE, A))
    ends[1].sendall(packed(frame(A, B)))
    switch.serve_once(1)
    assert ends[0].recv(100) == packed(frame(A, B))
    ends[2].setblocking(False)
    with pytest.raises(BlockingIOError):
        ends[2].recv(100)


def test_a_port_that_reconnects_takes_its_place_again(wires: tuple[Switch, list[socket.socket]], tmp_path: Path) -> None:
    switch, ends = wires
    ends[2].close()
    switch.serve_once(1)
    again = socket.socket(socket.AF_UNIX)
    again.settimeout(2)
    again.connect(str(tmp_path / "2"))
    switch.serve_once(1)
    ends[0].sendall(packed(frame(EVERYONE, A)))
    switch.serve_once(1)
    assert again.recv(100) == packed(frame(EVERYONE, A))


def test_nonsense_closes_only_its_own_port(wires: tuple[Switch, list[socket.socket]]) -> None:
    switch, ends = wires
    ends[2].sendall(b"\xff" * 100)
    switch.serve_once(1)
    assert ends[2].recv(1) == b""
    ends[0].sendall(packed(frame(EVERYONE, A)))
    switch.serve_once(1)
    assert ends[1].recv(100) == packed(frame(EVERYONE, A))
