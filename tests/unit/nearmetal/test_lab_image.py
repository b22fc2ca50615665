"""The node image: recipe, mirror, boot sectors, tools."""

from __future__ import annotations

import dataclasses
import io
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmetal.errors import NearmetalError
from nearmetal.lab import disk, image, mirror, preflight
from nearmetal.lab.progress import Progress
from nearmetal.lab.recipe import BIOS_SECTOR, ESP_SECTOR, FILES, MODES, SETUP, Recipe

DEB822 = """# a comment
Types: deb
URIs: http://archive.example/debian-security
Suites: bookworm-security
Components: main

Types: deb-src
URIs: http://source.example/debian
Suites: bookworm
Components: main

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main

Types: deb deb-src
URIs: http://archive.example/debian
# in the middle
Suites: bookworm
 bookworm-updates
Components: main contrib
"""


def apt_folder(tmp_path: Path, **files: str) -> Path:
    """An /etc/apt with these files; `list` is sources.list."""
    (tmp_path / "sources.list.d").mkdir()
    for name, text in files.items():
        path = "sources.list" if name == "list" else f"sources.list.d/{name.replace('_', '.')}"
        (tmp_path / path).write_text(text)
    return tmp_path


def test_mirror_of_deb822_sources(tmp_path: Path) -> None:
    assert mirror.debian_archive(apt_folder(tmp_path, debian_sources=DEB822)) == "http://archive.example/debian"


def test_mirror_of_one_line_sources(tmp_path: Path) -> None:
    text = (
        "# deb http://not.example/debian trixie main\n"
        "deb http://security.example/debian-security trixie-security main\n"
        "deb [arch=amd64 signed-by=/x.gpg] https://one.example/debian trixie main # comment\n"
    )
    assert mirror.debian_archive(apt_folder(tmp_path, list=text)) == "https://one.example/debian"


def test_no_mirror_among_sources_of_another_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(mirror.MIRROR_VARIABLE, raising=False)
    apt = apt_folder(tmp_path, list="deb http://archive.example/ubuntu noble main universe\n")
    assert mirror.find_mirror(apt) is None, "mmdebstrap's own default is taken"


def test_a_named_mirror_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(mirror.MIRROR_VARIABLE, "http://mine.example/debian")
    assert mirror.find_mirror(apt_folder(tmp_path, debian_sources=DEB822)) == "http://mine.example/debian"


def test_a_changed_recipe_is_another_image() -> None:
    recipe = Recipe()
    assert recipe.digest == Recipe().digest
    other = dataclasses.replace(recipe, packages=(*recipe.packages, "tuned"))
    assert other.digest != recipe.digest
    assert other.root_uuid != recipe.root_uuid != recipe.root_partuuid


def test_nothing_is_left_to_fill_in() -> None:
    recipe = Recipe()
    for text in (SETUP, *FILES.values()):
        filled = recipe.fill(text)
        assert "@ROOT" not in filled and "@MASKED" not in filled and "@DISABLED" not in filled
    assert f"UUID={recipe.root_uuid} / ext4" in recipe.fill(FILES["etc/fstab"])


def test_files_of_the_image_belong_to_root() -> None:
    with tarfile.open(fileobj=io.BytesIO(image.files_tar(Recipe()))) as tar:
        members = {m.name: m for m in tar.getmembers()}
    assert set(members) == set(FILES)
    assert all(m.uid == m.gid == 0 and m.mode == MODES.get(m.name, 0o644) for m in members.values())
    assert members["etc/sudoers.d/operator"].mode == 0o440


def test_unused_files_do_not_include_what_nested_guests_need() -> None:
    options = "\n".join(Recipe().dpkg_options())
    assert "path-exclude=/usr/lib/modules/*/kernel/drivers/gpu/*" in options
    assert "drivers/net/ethernet" not in options and "kernel/crypto" not in options and "drivers/virtio" not in options


@given(mbr=st.binary(min_size=512, max_size=512), sector=st.integers(1, 2**40))
def test_boot_sector_keeps_the_partition_table(mbr: bytes, sector: int) -> None:
    code = bytes(range(256)) * 2
    made = disk.boot_sector(mbr, code, sector)
    assert len(made) == 512
    assert made[0x1B8:0x1FE] == mbr[0x1B8:0x1FE]
    assert made[3:0x5A] == mbr[3:0x5A]
    assert int.from_bytes(made[0x5C:0x64], "little") == sector
    assert made[0x66:0x68] == b"\x90\x90"
    assert made[510:] == b"\x55\xaa"


@given(size=st.integers(600, 60_000), sector=st.integers(1, 2**32))
def test_core_lists_its_own_other_sectors(size: int, sector: int) -> None:
    core = bytes(0x1FE) + (0x820).to_bytes(2, "little") + b"x" * (size - 512)
    made = disk.core_at(core, sector)
    assert len(made) % 512 == 0 and len(made) - len(core) < 512
    assert int.from_bytes(made[0x1F4:0x1FC], "little") == sector + 1
    assert int.from_bytes(made[0x1FC:0x1FE], "little") == len(made) // 512 - 1
    assert made[0x1FE:0x200] == b"\x20\x08"
    assert made[512:size] == core[512:]


def test_a_boot_loader_too_large_for_its_partition_is_refused(tmp_path: Path) -> None:
    (tmp_path / "core.img").write_bytes(bytes((ESP_SECTOR - BIOS_SECTOR) * 512 + 1))
    with pytest.raises(NearmetalError, match="more than the BIOS boot partition"):
        disk.install_loaders(tmp_path / "disk", tmp_path, tmp_path / "log")


def fake_tools(folder: Path, **scripts: str) -> None:
    """Executable shell scripts in a folder."""
    folder.mkdir(exist_ok=True)
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)


def test_a_failed_build_names_its_log_and_leaves_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_tools(tmp_path / "bin", mmdebstrap='echo "E: Unable to fetch some archives" >&2; exit 25')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("NEARMETAL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv(mirror.MIRROR_VARIABLE, "http://mine.example/debian")
    monkeypatch.setattr(preflight, "check_build_tools", lambda: None)
    monkeypatch.setattr(preflight, "check_disk", lambda folder, gib: None)
    log = image.image_path(Recipe()).with_suffix(".log")
    with pytest.raises(NearmetalError, match=f"mmdebstrap ended with status 25.*Unable to fetch.*{log}"):
        image.ensure_image(Recipe(), Progress(quiet=True))
    assert sorted(p.suffix for p in log.parent.iterdir()) == [".lock", ".log"]
    assert "E: Unable to fetch" in log.read_text()


def test_an_interrupted_build_ends_its_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    fake_tools(tmp_path / "bin", mmdebstrap=f"echo $$ > {tmp_path}/pid; sleep 60")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("NEARMETAL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv(mirror.MIRROR_VARIABLE, "http://mine.example/debian")
    monkeypatch.setattr(preflight, "check_build_tools", lambda: None)
    monkeypatch.setattr(preflight, "check_disk", lambda folder, gib: None)
    cancel = threading.Event()
    threading.Timer(1, cancel.set).start()
    with pytest.raises(KeyboardInterrupt):
        image.ensure_image(Recipe(), Progress(quiet=True), cancel)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()
    assert not list((tmp_path / "cache" / "images").glob("*.build"))


def test_a_cached_image_needs_no_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARMETAL_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    path = image.image_path(Recipe())
    path.parent.mkdir()
    path.touch()
    image.kernel_path(Recipe()).touch()
    assert image.ensure_image(Recipe(), Progress(quiet=True)) == path


def test_missing_build_tools_are_named_by_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "which", lambda tool: None if tool in ("sgdisk", "mformat") else "/bin/x")
    monkeypatch.setattr(preflight, "KEYRINGS", tmp_path)
    with pytest.raises(NearmetalError, match="apt-get install gdisk mtools debian-archive-keyring"):
        preflight.check_build_tools()


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)\nCopyright", (10, 0)),
        ("QEMU emulator version 8.2.2 (Debian 1:8.2.2+ds-0ubuntu1)", (8, 2)),
    ],
)
def test_version_of_qemu(said: str, version: tuple[int, int]) -> None:
    assert preflight.parse_version(said) == version


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ('echo "QEMU emulator version 7.2.11 (Debian)"', "QEMU 7.2 is too old: igb.*bookworm-backports"),
        ('echo "illegal instruction"', "names no version"),
        (None, "needs QEMU.*is not there"),
    ],
)
def test_unusable_qemu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, message: str) -> None:
    if script:
        fake_tools(tmp_path, **{preflight.QEMU: script})
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    else:
        monkeypatch.setattr(preflight, "which", lambda tool: None)
    with pytest.raises(NearmetalError, match=message):
        preflight.check_run_tools()


def test_memory_is_counted_before_anything_starts() -> None:
    meminfo = "MemTotal: 8000000 kB\nMemFree: 100 kB\nMemAvailable: 4194304 kB\n"
    preflight.check_memory([2048], meminfo)
    with pytest.raises(NearmetalError, match="2 nodes need 4796 MiB, 4096 MiB are available"):
        preflight.check_memory([2048, 2048], meminfo)


def test_disk_space(tmp_path: Path) -> None:
    preflight.check_disk(tmp_path, 0)
    with pytest.raises(NearmetalError, match=f"1e\\+06 GiB are needed in {tmp_path}"):
        preflight.check_disk(tmp_path, 1_000_000)
