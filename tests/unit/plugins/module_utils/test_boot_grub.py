"""GRUB with a generated grub.cfg."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils import bootloader, cmdline, grubscript
from ansible_collections.nearmetal.rack.plugins.module_utils.bootplan import LoaderError
from ansible_collections.nearmetal.rack.plugins.module_utils.host import FileHost, Result
from ansible_collections.nearmetal.rack.plugins.module_utils.words import Word
from boot_trees import DEBIAN_GRUB, Pretender, debian, debian_cfg, write
from hypothesis import given, settings
from hypothesis import strategies as st

ASKED = ["intel_iommu=on", "iommu=pt"]


def sourced(root: Path, name: str) -> str:
    """What the shell of the generator makes of the defaults."""
    code = (
        f'cd {root}/etc/default; . ./grub; for f in grub.d/*.cfg; do [ -e "$f" ] && . ./$f; done; '
        f'printf "%s" "${{{name}}}"'
    )
    return subprocess.run(["sh", "-c", code], capture_output=True, text=True, check=True, env={}).stdout


def test_edits_defaults_and_the_lines_that_would_be_generated(tmp_path: Path) -> None:
    host = debian(tmp_path)
    done = bootloader.ensure(host, ASKED, [])
    assert done.loader == "grub"
    assert done.before == "root=UUID=1-2 ro net.ifnames=0 quiet"
    assert done.after == "root=UUID=1-2 ro net.ifnames=0 quiet intel_iommu=on iommu=pt"
    assert host.read("/etc/default/grub") == DEBIAN_GRUB.replace('"quiet"', '"quiet intel_iommu=on iommu=pt"')
    expected = debian_cfg("net.ifnames=0", default_args="quiet intel_iommu=on iommu=pt")
    assert host.read("/boot/grub/grub.cfg") == expected.replace("iommu=pt other", "iommu=pt other").replace(
        "quiet intel_iommu=on iommu=pt other", "quiet other"
    )
    assert not bootloader.ensure(host, ASKED, []).changed


def test_each_word_is_edited_where_it_stands(tmp_path: Path) -> None:
    host = debian(tmp_path)
    done = bootloader.ensure(host, ["net.ifnames=1"], ["quiet"])
    assert 'GRUB_CMDLINE_LINUX_DEFAULT=""\nGRUB_CMDLINE_LINUX="net.ifnames=1"\n' in host.read("/etc/default/grub")
    assert done.after == "root=UUID=1-2 ro net.ifnames=1"
    menu = grubscript.menu(host.read("/boot/grub/grub.cfg"))
    recovery = next(e for e in menu.walk() if e.recovery)
    assert [t.raw for t in recovery.linux or []] == ["root=UUID=1-2", "ro", "single", "net.ifnames=0"]


def test_dry_run_writes_nothing(tmp_path: Path) -> None:
    host = debian(tmp_path)
    files = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    done = bootloader.ensure(host, ASKED, [], dry=True)
    assert done.changed
    assert done.after == "root=UUID=1-2 ro net.ifnames=0 quiet intel_iommu=on iommu=pt"
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == files
    assert not bootloader.ensure(host, ["quiet"], []).changed
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == files


def test_without_grub_cfg_the_defaults_are_what_is_passed(tmp_path: Path) -> None:
    host = debian(tmp_path, cfg=False)
    done = bootloader.ensure(host, ASKED, [])
    assert (done.before, done.after) == ("net.ifnames=0 quiet", "net.ifnames=0 quiet intel_iommu=on iommu=pt")
    assert not bootloader.ensure(host, ASKED, []).changed


def test_snippet_that_overrides_is_where_the_edit_goes(tmp_path: Path) -> None:
    cloud = 'GRUB_CMDLINE_LINUX_DEFAULT="console=tty1 console=ttyS0"\n'
    host = write(
        tmp_path,
        {
            "etc/os-release": "ID=ubuntu\nID_LIKE=debian\n",
            "etc/default/grub": DEBIAN_GRUB,
            "etc/default/grub.d/50-cloudimg-settings.cfg": "# Cloud Image specific\n" + cloud,
            "etc/default/grub.d/kdump.cfg": 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT crashkernel=1G"\n',
        },
    )
    done = bootloader.ensure(host, ["iommu=pt", "console=ttyS1"], [])
    assert done.before == "net.ifnames=0 console=tty1 console=ttyS0 crashkernel=1G"
    assert done.after == "net.ifnames=0 console=ttyS1 crashkernel=1G iommu=pt"
    assert host.read("/etc/default/grub") == DEBIAN_GRUB
    assert sourced(tmp_path, "GRUB_CMDLINE_LINUX_DEFAULT") == "console=ttyS1 crashkernel=1G iommu=pt"
    assert 'LINUX_DEFAULT="console=ttyS1"\n' in host.read("/etc/default/grub.d/50-cloudimg-settings.cfg")
    assert not done.warnings
    assert not bootloader.ensure(host, ["iommu=pt", "console=ttyS1"], []).changed


@pytest.mark.parametrize(
    ("grub", "args", "absent", "linux", "default"),
    [
        ('GRUB_CMDLINE_LINUX_DEFAULT=quiet\n', ["a=1"], [], "", "quiet a=1"),
        ("GRUB_CMDLINE_LINUX_DEFAULT='quiet splash'\n", ["a=1"], ["quiet"], "", "splash a=1"),
        ("GRUB_CMDLINE_LINUX_DEFAULT=\n", ["a=1"], [], "", "a=1"),
        ("GRUB_TIMEOUT=1", ["a=1"], [], "", "a=1"),
        ('GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n'
         'GRUB_CMDLINE_LINUX_DEFAULT="${GRUB_CMDLINE_LINUX_DEFAULT:+$GRUB_CMDLINE_LINUX_DEFAULT }x"\n',
         ["a=1"], ["quiet"], "", "x a=1"),
        ('E=" default_hugepagesz=1GB hugepagesz=1G hugepages=64 iommu=pt intel_iommu=on "\n'
         'GRUB_CMDLINE_LINUX="${GRUB_CMDLINE_LINUX:+$GRUB_CMDLINE_LINUX }${E}"\n',
         ["hugepagesz=1G", "hugepages=8", "iommu=nopt"], ["intel_iommu"],
         "default_hugepagesz=1GB hugepagesz=1G hugepages=8 iommu=nopt", ""),
        ('GRUB_CMDLINE_LINUX="a" # managed\n'
         'GRUB_CMDLINE_LINUX="${GRUB_CMDLINE_LINUX} hugepagesz=1G hugepages=4" # CEK\n',
         ["a=2"], ["hugepages"], "a=2", ""),
        ('GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX pci=config_acs=\\"x@1;y@2\\""\n',
         ['pci=config_acs="z@1;w@2"', "dyndbg=\"file x +p\""], [], 'pci=config_acs="z@1;w@2"', 'dyndbg="file x +p"'),
        ('GRUB_CMDLINE_LINUX_DEFAULT="quiet \\\n  splash \\\n  nosmt"\n', [], ["splash"], "", "quiet nosmt"),
        ('A=x\nGRUB_CMDLINE_LINUX="$A $A"\n', ["y"], ["x"], "", "y"),
        ('GRUB_CMDLINE_LINUX_DEFAULT="quiet \\$tuned_params"\n', ["a=1"], ["quiet"], "", "$tuned_params a=1"),
    ],
)  # fmt: skip
def test_shell_of_all_kinds(
    tmp_path: Path, grub: str, args: list[str], absent: list[str], linux: str, default: str
) -> None:
    host = write(tmp_path, {"etc/os-release": "ID=debian\n", "etc/default/grub": grub})
    done = bootloader.ensure(host, args, absent)
    assert sourced(tmp_path, "GRUB_CMDLINE_LINUX").split() == linux.split()
    assert sourced(tmp_path, "GRUB_CMDLINE_LINUX_DEFAULT").split() == default.split()
    assert (done.after or "").split() == (linux + " " + default).split()
    assert not bootloader.ensure(host, args, absent).changed


VARIABLES = ("E", "GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT")
PARTS = st.lists(
    st.sampled_from(
        ["quiet", "a=1", "b", "console=tty0", "console=ttyS0", "$E", "${GRUB_CMDLINE_LINUX}", 'x=\\"1;2\\"',
         "${GRUB_CMDLINE_LINUX_DEFAULT:+$GRUB_CMDLINE_LINUX_DEFAULT }c=1"]  # fmt: skip
    ),
    max_size=4,
)  # fmt: skip
LINES = st.one_of(
    st.builds('{}="{}"'.format, st.sampled_from(VARIABLES), PARTS.map(" ".join)),
    st.builds("{}='{}'".format, st.sampled_from(VARIABLES), st.sampled_from(["", "quiet a=1", "b  splash"])),
    st.builds("{}={}".format, st.sampled_from(VARIABLES), st.sampled_from(["", "quiet", "$E", "a=1\\ b"])),
    st.sampled_from(["# comment", "OTHER=`date`"]),
)
FILES = st.lists(LINES, max_size=5).map("\n".join)


@settings(max_examples=60, deadline=None)
@given(
    FILES, FILES, st.lists(st.sampled_from(["a=1", "a=2", "n=1", "console=tty1", 'x="3;4"']), max_size=3, unique=True),
    st.lists(st.sampled_from(["quiet", "b", "c"]), max_size=2, unique=True),
)  # fmt: skip
def test_any_defaults(first: str, second: str, args: list[str], absent: list[str]) -> None:
    """Whatever the files look like: the shell that sources them gets the request, and all else as before."""

    def words() -> list[str]:
        values = [sourced(root, name) for name in VARIABLES[1:]]
        return [token.word.text for value in values for token in grubscript.tokens(value)]

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        files = {"etc/default/grub": first, "etc/default/grub.d/a.cfg": second, "etc/os-release": "ID=debian\n"}
        host = write(root, files)
        before = [Word(text, text) for text in words()]
        done = bootloader.ensure(host, args, absent)
        after = [Word(text, text) for text in words()]
        wanted = cmdline.request(args, absent)
        assert cmdline.satisfied(after, args, absent)
        assert cmdline.unmanaged(after, wanted) == cmdline.unmanaged(before, wanted)
        assert [w.text for w in cmdline.parse(done.after or "")] == [w.text for w in after]
        assert done.changed == (not cmdline.satisfied(before, args, absent))
        assert not bootloader.ensure(host, args, absent).changed


def test_real_defaults(samples: Path, tmp_path: Path) -> None:
    text = (samples / "boot" / "etc-default-grub-lines.txt").read_text()
    lines = [line for line in text.splitlines() if line.startswith("GRUB_")]
    assert len(lines) >= 4
    host = write(tmp_path, {"etc/os-release": "ID=ubuntu\n", "etc/default/grub": "\n".join(lines) + "\n"})
    before = bootloader.observe(host)["configured"] or ""
    asked = ["iommu=pt", "hugepagesz=1G", "hugepages=2", 'pci=config_acs="x;y"']
    done = bootloader.ensure(host, asked, [])
    assert cmdline.satisfied(cmdline.parse(done.after or ""), asked)
    names = ("iommu", "hugepages", "hugepagesz", "pci")
    kept = [w for w in cmdline.parse(before) if w.name not in names]
    assert kept == [w for w in cmdline.parse(done.after or "") if w.name not in names]
    shell_words = (sourced(tmp_path, VARIABLES[1]) + " " + sourced(tmp_path, VARIABLES[2])).split()
    assert [w.text for w in cmdline.parse(done.after or "")] == [word.replace('"', "") for word in shell_words]


COMPLEX = DEBIAN_GRUB + 'if [ -e /etc/x ]; then\n  GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX x"\nfi\n'


def test_file_that_does_more_than_assign_is_left_alone(tmp_path: Path) -> None:
    host = debian(tmp_path, cfg=False, etc__default__grub=COMPLEX)
    done = bootloader.ensure(host, ASKED, [])
    assert host.read("/etc/default/grub") == COMPLEX
    assert (
        '="${GRUB_CMDLINE_LINUX_DEFAULT:+$GRUB_CMDLINE_LINUX_DEFAULT }intel_iommu=on iommu=pt"'
        in (host.read("/etc/default/grub.d/zz-nearmetal.cfg"))
    )
    assert "line 6 does more than assign (if [ -e /etc/x ]; then)" in done.warnings[0]
    assert sourced(tmp_path, "GRUB_CMDLINE_LINUX_DEFAULT") == "quiet intel_iommu=on iommu=pt"
    assert not bootloader.ensure(host, ASKED, []).changed
    again = bootloader.ensure(host, ["iommu=nopt"], ["intel_iommu", "quiet"])
    assert again.after == "net.ifnames=0 iommu=nopt"
    assert sourced(tmp_path, "GRUB_CMDLINE_LINUX_DEFAULT") == "iommu=nopt"
    assert host.read("/etc/default/grub") == COMPLEX
    with pytest.raises(LoaderError, match=r"/etc/default/grub line 6 does more than assign.*by hand"):
        bootloader.ensure(host, [], ["net.ifnames"])


def test_where_no_snippets_are_read_the_line_goes_to_the_end(tmp_path: Path) -> None:
    text = 'GRUB_CMDLINE_LINUX="quiet"\nsource /etc/more\n'
    host = write(
        tmp_path,
        {
            "etc/os-release": "ID=sles\n",
            "etc/default/grub": text,
            "boot/grub2/grub.cfg": debian_cfg("quiet", default_args=""),
        },
    )
    done = bootloader.ensure(host, ["a=1"], [])
    new = 'GRUB_CMDLINE_LINUX_DEFAULT="a=1"\n'
    assert host.read("/etc/default/grub") == text + new
    assert (done.after or "").endswith("quiet a=1")
    assert not bootloader.ensure(host, ["a=1"], []).changed


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=20))
def test_quoted_for_grub_is_one_word_with_the_same_text(text: str) -> None:
    (token,) = grubscript.tokens(grubscript.quote(Word(text, text)))
    assert token.word.text == text.replace('"', "") or token.word.text == text


def test_image_whose_menu_is_not_generated_yet(tmp_path: Path) -> None:
    host = debian(tmp_path, cfg=False)
    write(tmp_path, {"boot/grub/grub.cfg": "# to be generated\n"})
    assert bootloader.ensure(host, ["a=1"], []).after == "net.ifnames=0 quiet a=1"
    assert host.read("/boot/grub/grub.cfg") == "# to be generated\n"


def test_plain_grub_cfg_without_marks(tmp_path: Path) -> None:
    text = "set default=1\nmenuentry \"One\" {\n linux /v ro\n}\nmenuentry 'Two' { linux /v ; initrd /i }\n"
    host = write(tmp_path, {"boot/grub2/grub.cfg": text})
    assert bootloader.ensure(host, ["a=1"], []).after == "a=1"
    assert host.read("/boot/grub2/grub.cfg") == text.replace("/v ro", "/v ro a=1").replace("/v ;", "/v a=1 ;")


@pytest.mark.parametrize(
    ("default", "env", "line"),
    [
        ("0", None, "root=UUID=1-2 ro net.ifnames=0 quiet"),
        ("1>1", None, "root=UUID=1-2 ro single net.ifnames=0"),
        ("gnulinux-advanced-1-2>gnulinux-6.12-advanced-1-2", None, "root=UUID=1-2 ro net.ifnames=0 quiet"),
        ("Advanced options for Debian GNU/Linux>Debian GNU/Linux, with Linux 6.12 (recovery mode)", None,
         "root=UUID=1-2 ro single net.ifnames=0"),
        ("${saved_entry}", "saved_entry=other\n", "root=UUID=1-2 ro net.ifnames=0 quiet other"),
        ("${saved_entry}", None, "root=UUID=1-2 ro net.ifnames=0 quiet"),
        ("nothing-like-it", None, "root=UUID=1-2 ro net.ifnames=0 quiet"),
    ],
)  # fmt: skip
def test_default_entry(tmp_path: Path, default: str, env: str | None, line: str) -> None:
    host = debian(tmp_path, cfg=False)
    write(tmp_path, {"boot/grub/grub.cfg": debian_cfg("net.ifnames=0", default)})
    if env:
        write(tmp_path, {"boot/grub/grubenv": "# GRUB Environment Block\n" + env + "#" * 900})
    boot = bootloader.observe(host)
    assert boot["configured"] == line
    assert "/boot/grub/grub.cfg" in boot["sources"]


def test_default_entry_that_is_not_generated_is_refused(tmp_path: Path) -> None:
    host = debian(tmp_path)
    write(tmp_path, {"boot/grub/grub.cfg": debian_cfg("net.ifnames=0", "other")})
    with pytest.raises(LoaderError, match=r"'Other' of /boot/grub/grub.cfg comes from 40_custom.*quiet other"):
        bootloader.ensure(host, ASKED, [])
    assert host.read("/etc/default/grub") == DEBIAN_GRUB
    write(tmp_path, {"boot/grub/grub.cfg": debian_cfg("net.ifnames=0", "chain")})
    with pytest.raises(LoaderError, match="loads chainloader"):
        bootloader.ensure(host, ASKED, [])


def test_efi_stub_points_elsewhere(tmp_path: Path) -> None:
    host = debian(tmp_path)
    stub = "search.fs_uuid 1-2 root\nset prefix=($root)'/boot/grub'\nconfigfile $prefix/grub.cfg\n"
    write(tmp_path, {"boot/efi/EFI/debian/grub.cfg": stub, "sys/firmware/efi/fw_platform_size": "64\n"})
    assert bootloader.observe(host)["configured"] == "root=UUID=1-2 ro net.ifnames=0 quiet"
    write(tmp_path, {"boot/efi/EFI/debian/grub.cfg": debian_cfg("full")})
    assert bootloader.observe(host)["configured"] == "root=UUID=1-2 ro full quiet"


def test_what_new_kernels_get_counts_too(tmp_path: Path) -> None:
    host = debian(tmp_path)
    write(tmp_path, {"boot/grub/grub.cfg": debian_cfg("net.ifnames=0", default_args="quiet a=1")})
    assert bootloader.observe(host)["others"] == ["net.ifnames=0 quiet"]
    assert bootloader.ensure(host, ["a=1"], []).changed
    assert bootloader.observe(host)["others"] == ["net.ifnames=0 quiet a=1"]


def update_grub(host: FileHost, _argv: object) -> Result:
    """What update-grub does with the tree."""
    root = Path(host.root)
    text = debian_cfg(sourced(root, "GRUB_CMDLINE_LINUX"), default_args=sourced(root, "GRUB_CMDLINE_LINUX_DEFAULT"))
    (root / "boot/grub/grub.cfg").write_text(text)
    return Result(0, "", "done\n")


def live(root: Path, command: object = update_grub) -> Pretender:
    debian(root, usr__sbin__update_grub="").write("/usr/sbin/update-grub", "")
    write(root, {"proc/cmdline": "BOOT_IMAGE=/vmlinuz root=UUID=1-2 ro net.ifnames=0 quiet\n"})
    return Pretender(str(root), {"update-grub": command})  # type: ignore[dict-item]


def test_live_host_generates_and_reads_again(tmp_path: Path) -> None:
    host = live(tmp_path)
    done = bootloader.ensure(host, ['pci=config_acs="a;b"', "quiet"], [])
    assert host.ran == [["/usr/sbin/update-grub"]]
    assert done.after == 'root=UUID=1-2 ro net.ifnames=0 quiet pci=config_acs="a;b"'
    assert done.reboot_required
    assert done.running == "BOOT_IMAGE=/vmlinuz root=UUID=1-2 ro net.ifnames=0 quiet"
    assert not bootloader.ensure(host, ["pci=config_acs=a;b"], []).changed
    assert len(host.ran) == 1
    assert not bootloader.ensure(host, ["quiet"], []).reboot_required


def test_stale_grub_cfg_is_generated_anew(tmp_path: Path) -> None:
    host = live(tmp_path)
    write(tmp_path, {"etc/default/grub": DEBIAN_GRUB.replace("quiet", "quiet a=1")})
    done = bootloader.ensure(host, ["a=1"], [])
    assert done.changed
    assert host.ran
    assert (done.after or "").endswith("a=1")


def test_failing_generator_leaves_no_half_state(tmp_path: Path) -> None:
    def fail(host: FileHost, _argv: object) -> Result:
        Path(host.root, "boot/grub/grub.cfg").write_text("half")
        Path(host.root, "boot/grub/grub.cfg.new").write_text("half")
        noise = "grub-probe: warning: odd partition\n" * 9
        return Result(1, "", noise + "grub-mkconfig: write error: No space left on device\n")

    host = live(tmp_path, fail)
    files = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    with pytest.raises(LoaderError, match=r"exit status 1: grub-mkconfig: write error: No space left on device. The former"):
        bootloader.ensure(host, ASKED, [])
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file() and "backup" not in p.parts} == files


def test_generator_that_ignores_the_defaults_is_found_out(tmp_path: Path) -> None:
    host = live(tmp_path, lambda h, a: Result(0, "", ""))
    with pytest.raises(
        LoaderError,
        match=r"asked for intel_iommu=on iommu=pt, but grub would pass root=\S+ ro net.ifnames=0 quiet\. ",
    ):
        bootloader.ensure(host, ASKED, [])
    assert host.read("/etc/default/grub") == DEBIAN_GRUB


@pytest.mark.parametrize("writes", [0, 1])
def test_full_disk_leaves_no_half_state(tmp_path: Path, writes: int) -> None:
    host = live(tmp_path)
    write(tmp_path, {"etc/default/grub.d/a.cfg": 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX old=1"\n'})
    write(tmp_path, {"boot/grub/grub.cfg": debian_cfg("net.ifnames=0 old=1")})
    files = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    host.writes_left = writes
    with pytest.raises(LoaderError, match="No space left on device. The former files were restored"):
        bootloader.ensure(host, ASKED, ["old"])
    assert all(p.read_bytes() == data for p, data in files.items())
    assert not host.ran


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few pages."""
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("pages", range(7))
def test_really_full_disk(small_disk: Path, pages: int) -> None:
    host = debian(small_disk, etc__default__grub=DEBIAN_GRUB + "#" * 5000 + "\n")
    files = {p: p.read_bytes() for p in small_disk.rglob("*") if p.is_file()}
    stat = os.statvfs(small_disk)
    (small_disk / "filler").write_bytes(b"x" * max(0, stat.f_bavail - pages) * stat.f_bsize)
    asked = ["a=" + "b" * 3000]
    try:
        done = bootloader.ensure(host, asked, [])
    except LoaderError as err:
        assert "No space left on device" in str(err)
        assert "The former files were restored" in str(err)
        assert all(p.read_bytes() == data for p, data in files.items())
    else:
        assert done.after == bootloader.observe(host)["configured"]
        assert not bootloader.ensure(host, asked, []).changed
        assert pages > 2


def test_no_generator_is_said_before_anything_is_written(tmp_path: Path) -> None:
    host = live(tmp_path)
    (tmp_path / "usr/sbin/update-grub").unlink()
    with pytest.raises(LoaderError, match="neither update-grub nor grub-mkconfig"):
        bootloader.ensure(host, ASKED, [])
    assert host.read("/etc/default/grub") == DEBIAN_GRUB
