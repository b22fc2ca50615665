from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

import pytest
import trees

from nearmetal import archives, core
from nearmetal.errors import BAD_INTENT, NearmetalError


def refused(path: Path) -> str:
    with pytest.raises(NearmetalError) as err:
        archives.tree_host(path)
    assert err.value.code == BAD_INTENT
    return err.value.message


def add(archive: tarfile.TarFile, name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, target: str = "") -> None:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.size = kind, target, len(data)
    archive.addfile(member, io.BytesIO(data))


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
@pytest.mark.parametrize("top", ["", "./", "host/", "must-gather/quay-io/nodes/host/sysinfo/"])
def test_archives_are_as_the_tree(tmp_path: Path, mode: str, top: str) -> None:
    tree = trees.build(nodes=2, devices=[{"address": "0000:17:00.0", "netdev": "ens1"}])
    path = tree.archive(tmp_path / "capture", top, mode)
    state = core.observe(archives.tree_host(path))
    expected = core.observe(tree.host())
    for section in ("cpu", "memory", "pci", "net", "kernel"):
        assert state[section] == expected[section]


@pytest.mark.parametrize("top", ["", "host", "a/b/c"])
def test_folders(tmp_path: Path, top: str) -> None:
    tree = trees.build(nodes=2)
    tree.write(tmp_path / top)
    assert core.observe(archives.tree_host(tmp_path)) == core.observe(tree.host())


def test_what_is_no_tree(tmp_path: Path) -> None:
    assert "does not exist" in refused(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    assert "is no captured tree" in refused(tmp_path / "empty")
    (tmp_path / "text").write_text("x" * 2000)
    assert "neither a folder nor a tar archive" in refused(tmp_path / "text")
    (tmp_path / "text.gz").write_bytes(gzip.compress(b"x" * 2000))
    assert "neither a folder nor a tar archive" in refused(tmp_path / "text.gz")
    with tarfile.open(tmp_path / "other.tar", "w") as archive:
        add(archive, "etc/passwd", b"root")
        add(archive, "proc/readme", b"not a host's")
    assert "is no captured tree" in refused(tmp_path / "other.tar")
    (tmp_path / "zero").write_bytes(b"")
    refused(tmp_path / "zero")


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
@pytest.mark.parametrize("part", [0.3, 0.9])
def test_cut_off_archives(tmp_path: Path, mode: str, part: float) -> None:
    path = trees.build(nodes=2, irqs=200).archive(tmp_path / "whole", mode=mode)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * part) | 1])
    assert "cut off or damaged" in refused(path)


def test_plain_archive_cut_at_a_block(tmp_path: Path) -> None:
    path = trees.build(nodes=2).archive(tmp_path / "whole.tar", mode="w")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 1024 * 512])
    assert "cut off or damaged" in refused(path)


def test_several_hosts_in_one_archive(tmp_path: Path) -> None:
    for name in ("a", "b"):
        trees.build().write(tmp_path / "hosts" / name)
    assert "trees of 2 hosts (hosts/a, hosts/b)" in refused(tmp_path)
    assert archives.tree_host(tmp_path / "hosts" / "a").exists("/proc/cpuinfo")


def test_members_that_point_outside_are_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "evil.tar", "w") as archive:
        add(archive, "sys/devices/system/cpu/online", b"0")
        add(archive, "proc/../../../etc/cron.d/evil", b"x")
    assert "'..' in its path" in refused(tmp_path / "evil.tar")


def test_links_reach_only_the_archive(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "links.tar", "w") as archive:
        add(archive, "host/sys/devices/system/cpu/online", b"0\n")
        add(archive, "host/proc/cmdline", kind=tarfile.SYMTYPE, target="/etc/hostname")
        add(archive, "host/proc/version", kind=tarfile.SYMTYPE, target="../../../../../etc/passwd")
        add(archive, "host/proc/uptime", kind=tarfile.LNKTYPE, target="host/sys/devices/system/cpu/online")
        add(archive, "host/proc/loop", kind=tarfile.SYMTYPE, target="loop")
    host = archives.tree_host(tmp_path / "links.tar")
    assert host.get("/proc/cmdline", "none") == "none" and host.get("/proc/version", "none") == "none"
    assert host.read("/proc/uptime") == "0\n"
    core.observe(host)


def test_giants_and_bombs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = trees.build(cmdline="x" * 5000).archive(tmp_path / "big.tar.gz")
    monkeypatch.setattr(archives, "MAX_FILE", 4000)
    state = core.observe(archives.tree_host(path))
    assert state["kernel"]["cmdline"] is None
    assert any(n["section"] == "kernel.cmdline" and "larger than" in n["reason"] for n in state["unread"])
    monkeypatch.setattr(archives, "MAX_TOTAL", 500)
    assert "refused" in refused(path)
    monkeypatch.setattr(archives, "MAX_UNPACKED", 1000)
    assert "unpacks to more" in refused(path)


def test_devices_and_notes(tmp_path: Path) -> None:
    note = json.dumps({"schema": 1, "errors": {"/proc/cmdline": "Permission denied", "bad": "x"}})
    with tarfile.open(tmp_path / "c.tar", "w") as archive:
        add(archive, "sys/devices/system/cpu/online", b"0\n")
        add(archive, "dev/kvm", kind=tarfile.CHRTYPE)
        add(archive, archives.NOTE, note.encode())
    state = core.observe(archives.tree_host(tmp_path / "c.tar"))
    assert state["kvm"] is True
    assert any("Permission denied" in n["reason"] for n in state["unread"])


def test_files_padded_with_zeros_by_tar(tmp_path: Path) -> None:
    tree = trees.build(nodes=2)
    expected = core.observe(tree.host())
    tree.files = {path: text + "\0" * 200 for path, text in tree.files.items()}
    state = core.observe(archives.tree_host(tree.archive(tmp_path / "padded.tar")))
    assert state["cpu"]["cores"] == expected["cpu"]["cores"] and state["cpu"]["nodes"] == expected["cpu"]["nodes"]


def test_damage_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "bad.tgz").write_bytes(b"\x1f\x8b" + bytes(range(256)))
    assert "\n" not in refused(tmp_path / "bad.tgz").strip()
