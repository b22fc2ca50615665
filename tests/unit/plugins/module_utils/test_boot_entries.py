"""Boot loader entries: GRUB's blscfg, systemd-boot, ostree; and hosts that are refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils import bls, bootloader, grubenv
from ansible_collections.nearmetal.rack.plugins.module_utils.bootplan import LoaderError
from ansible_collections.nearmetal.rack.plugins.module_utils.host import FileHost, Result, SnapshotHost
from boot_trees import RHEL_RELEASE, Pretender, block, debian_cfg, entry, rhel8, rhel9, write
from hypothesis import given
from hypothesis import strategies as st

ASKED = ["intel_iommu=on", "iommu=pt"]
FOLDER = "/boot/loader/entries/"


def test_rhel9_all_kernels_and_those_to_come(tmp_path: Path) -> None:
    host = rhel9(tmp_path)
    rescue = host.read(FOLDER + "aa-0-rescue.conf")
    done = bootloader.ensure(host, ASKED, ["rhgb"])
    assert done.loader == "grub-bls"
    assert done.before == "root=/dev/mapper/r ro rhgb quiet $tuned_params"
    assert done.after == "root=/dev/mapper/r ro quiet $tuned_params intel_iommu=on iommu=pt"
    for version in ("5.14.0-70", "5.14.0-427"):
        text = host.read(FOLDER + f"aa-{version}.el9.x86_64.conf")
        assert text == entry(version + ".el9.x86_64", done.after)
    assert host.read(FOLDER + "aa-0-rescue.conf") == rescue
    assert host.read("/etc/kernel/cmdline") == "root=/dev/mapper/r ro quiet intel_iommu=on iommu=pt\n"
    assert 'GRUB_CMDLINE_LINUX="quiet intel_iommu=on iommu=pt"\n' in host.read("/etc/default/grub")
    assert not bootloader.ensure(host, ASKED, ["rhgb"]).changed


def test_variables_that_a_file_sets_are_replaced(tmp_path: Path) -> None:
    host = rhel9(tmp_path)
    write(tmp_path, {"boot/grub2/grubenv": block("saved_entry=x", "tuned_params=skew_tick=1 isolcpus=2-3")})
    done = bootloader.ensure(host, ASKED, [])
    assert done.after == "root=/dev/mapper/r ro rhgb quiet skew_tick=1 isolcpus=2-3 intel_iommu=on iommu=pt"
    assert "quiet $tuned_params intel" in host.read(FOLDER + "aa-5.14.0-427.el9.x86_64.conf")
    edited = [edit.path for edit in bootloader.ensure(host, ["isolcpus=2,3"], []).edits]
    assert edited == ["/etc/kernel/cmdline", "/etc/default/grub"], "the entries have it already"
    with pytest.raises(LoaderError, match="a variable in the entry adds words"):
        bootloader.ensure(host, ["isolcpus=4-5"], [])


def test_only_other_kernels_lack_it(tmp_path: Path) -> None:
    host = rhel9(tmp_path)
    path = FOLDER + "aa-5.14.0-427.el9.x86_64.conf"
    write(tmp_path, {path: host.read(path).replace("quiet", "quiet a=1")})
    done = bootloader.ensure(host, ["a=1"], [])
    assert done.before == done.after
    assert path not in [edit.path for edit in done.edits]
    assert len(done.edits) == 3


def test_quotes_for_grub_and_several_options_lines(tmp_path: Path) -> None:
    host = rhel9(tmp_path)
    path = FOLDER + "aa-5.14.0-427.el9.x86_64.conf"
    write(tmp_path, {path: "linux /v\noptions root=/dev/r ro\noptions quiet 'x=a b'\n"})
    done = bootloader.ensure(host, ["pci=config_acs=a;b", 'dyndbg="file x +p"'], ["quiet"])
    assert host.read(path) == (
        'linux /v\noptions root=/dev/r ro\noptions \'x=a b\' pci="config_acs=a;b" dyndbg="file x +p"\n'
    )
    assert done.after == 'root=/dev/r ro x="a b" pci="config_acs=a;b" dyndbg="file x +p"'
    assert not bootloader.ensure(host, ["pci=config_acs=a;b", 'dyndbg="file x +p"'], ["quiet"]).changed


def test_rhel8_kernelopts_is_written_in_place(tmp_path: Path) -> None:
    host = rhel8(tmp_path)
    real = tmp_path / "boot/efi/EFI/redhat/grubenv"
    inode = real.stat().st_ino
    done = bootloader.ensure(host, ASKED, ["crashkernel"])
    assert done.before == "root=/dev/mapper/r ro crashkernel=auto quiet $tuned_params"
    assert done.after == "root=/dev/mapper/r ro quiet intel_iommu=on iommu=pt $tuned_params"
    assert (tmp_path / "boot/grub2/grubenv").is_symlink()
    assert real.stat().st_ino == inode
    assert real.stat().st_size == 1024
    env = grubenv.read(real.read_text())
    assert env["kernelopts"] == "root=/dev/mapper/r ro quiet intel_iommu=on iommu=pt"
    assert env["saved_entry"] == "bb-4.18.0-553.el8.x86_64"
    assert "options $kernelopts $tuned_params\n" in host.read(FOLDER + "bb-4.18.0-553.el8.x86_64.conf")
    assert 'GRUB_CMDLINE_LINUX="quiet intel_iommu=on iommu=pt"' in host.read("/etc/default/grub")
    assert not bootloader.ensure(host, ASKED, ["crashkernel"]).changed


def test_words_beside_kernelopts_do_not_contradict_it(tmp_path: Path) -> None:
    host = rhel8(tmp_path)
    path = FOLDER + "bb-4.18.0-553.el8.x86_64.conf"
    write(tmp_path, {path: entry("4.18.0-553.el8.x86_64", "$kernelopts iommu=nopt x=1")})
    done = bootloader.ensure(host, ["iommu=pt"], [])
    assert done.after == "root=/dev/mapper/r ro crashkernel=auto quiet iommu=pt x=1"
    assert "options $kernelopts x=1\n" in host.read(path)


def test_kernelopts_of_grub_cfg_alone(tmp_path: Path) -> None:
    host = rhel8(tmp_path, "other=1")
    write(
        tmp_path,
        {"boot/grub2/grub.cfg": 'if [ -z "${kernelopts}" ]; then\n  set kernelopts="root=/dev/r ro "\nfi\nblscfg\n'},
    )
    done = bootloader.ensure(host, ["a=1"], [])
    assert done.after == "root=/dev/r ro a=1 $tuned_params"
    assert grubenv.read(host.read("/boot/grub2/grubenv"))["kernelopts"] == "root=/dev/r ro a=1"


def test_block_without_room_is_refused(tmp_path: Path) -> None:
    host = rhel8(tmp_path, "kernelopts=root=/dev/r " + "x" * 900)
    before = host.read("/boot/grub2/grubenv")
    with pytest.raises(LoaderError, match=r"grubenv: kernelopts needs \d+ bytes more"):
        bootloader.ensure(host, ["a=" + "b" * 100], [])
    assert host.read("/boot/grub2/grubenv") == before


def test_tree_with_entries_and_a_red_hat_release_only(tmp_path: Path) -> None:
    host = write(tmp_path, {"etc/os-release": RHEL_RELEASE, FOLDER + "a-1.conf": entry("1", "root=/dev/r ro")})
    done = bootloader.ensure(host, ['pci=config_acs="a;b"'], [])
    assert (done.loader, done.after) == ("grub-bls", 'root=/dev/r ro pci=config_acs="a;b"')


SYSTEMD_OPTIONS = 'root=UUID=1 ro quiet "dyndbg=file x +p" $tuned_params'


def systemd_boot(root: Path, esp: str = "boot/efi", conf: str = "timeout 3\n", **more: str) -> FileHost:
    folder = esp + "/loader/"
    return write(
        root,
        {
            "etc/os-release": "ID=debian\n",
            folder + "loader.conf": conf,
            folder + "entries/mid-6.1.conf": entry("6.1", "root=UUID=1 ro old", "Debian"),
            folder + "entries/mid-6.12+3.conf": entry("6.12", SYSTEMD_OPTIONS, "Debian"),
            **{name.replace("__", "/"): text for name, text in more.items()},
        },
    )  # fmt: skip


def test_systemd_boot_passes_options_literally(tmp_path: Path) -> None:
    host = systemd_boot(tmp_path, etc__kernel__cmdline="root=UUID=1 ro quiet\n")
    done = bootloader.ensure(host, ["pci=config_acs=a;b", *ASKED], ["quiet"])
    assert done.loader == "systemd-boot"
    assert done.before == 'root=UUID=1 ro quiet "dyndbg=file x +p" $tuned_params'
    assert done.after == 'root=UUID=1 ro "dyndbg=file x +p" $tuned_params pci=config_acs=a;b intel_iommu=on iommu=pt'
    assert f"options {done.after}\n" in host.read("/boot/efi/loader/entries/mid-6.12+3.conf")
    assert "root=UUID=1 ro old pci=config_acs=a;b" in host.read("/boot/efi/loader/entries/mid-6.1.conf")
    assert host.read("/etc/kernel/cmdline") == "root=UUID=1 ro pci=config_acs=a;b intel_iommu=on iommu=pt\n"
    assert not bootloader.ensure(host, ["pci=config_acs=a;b", *ASKED], ["quiet"]).changed


def test_systemd_boot_default_pattern_and_new_kernels(tmp_path: Path) -> None:
    host = systemd_boot(tmp_path, "efi", "default mid-6.1.conf\n")
    done = bootloader.ensure(host, ["a=1"], [])
    assert done.before == "root=UUID=1 ro old"
    assert host.read("/etc/kernel/cmdline") == "root=UUID=1 ro old a=1\n"
    assert not bootloader.ensure(host, ["a=1"], []).changed


@pytest.mark.parametrize("conf", ["default\tmid-6.1.conf\n", "  default   mid-6.1.*\n"])
def test_systemd_boot_default_with_any_blanks(tmp_path: Path, conf: str) -> None:
    assert bootloader.ensure(systemd_boot(tmp_path, conf=conf), ["a=1"], []).before == "root=UUID=1 ro old"


def test_systemd_boot_default_of_the_firmware_goes_before_the_file(tmp_path: Path) -> None:
    host = systemd_boot(tmp_path, conf="default mid-6.1.conf\n")
    name = "sys/firmware/efi/efivars/LoaderEntryDefault" + GUID  # the first of the menu
    write(tmp_path, {name: "\6\0\0\0" + "".join(c + "\0" for c in "mid-6.12.conf")})
    assert bootloader.observe(host)["configured"] == SYSTEMD_OPTIONS


@pytest.mark.parametrize(
    ("conf", "files"),
    [
        ("default linux-*.efi\n", {"boot/efi/EFI/Linux/linux-6.1.efi": "MZ"}),
        ("default new.conf\n", {"boot/efi/loader/entries/new.conf": "title x\nuki /EFI/Linux/x.efi\n"}),
    ],
)
def test_systemd_boot_default_that_is_sealed(tmp_path: Path, conf: str, files: dict[str, str]) -> None:
    host = systemd_boot(tmp_path, conf=conf)
    write(tmp_path, files)
    assert "unified kernel image" in bootloader.observe(host)["sealed"]


def test_systemd_boot_default_entry_beside_an_image(tmp_path: Path) -> None:
    host = systemd_boot(tmp_path, conf="default mid-6.1.conf\n")
    write(tmp_path, {"boot/efi/EFI/Linux/linux-6.1.efi": "MZ"})
    assert bootloader.observe(host)["configured"] == "root=UUID=1 ro old"


def test_leftover_defaults_of_grub_do_not_count(tmp_path: Path) -> None:
    write(tmp_path, {"etc/default/grub": 'GRUB_CMDLINE_LINUX="x"\n', "efi/EFI/Linux/linux.efi": "MZ"})
    assert "unified kernel image" in bootloader.observe(FileHost(str(tmp_path)))["sealed"]
    write(tmp_path, {"efi/loader/entries/a.conf": entry("1", "root=/dev/r ro")})
    assert bootloader.observe(FileHost(str(tmp_path)))["loader"] == "systemd-boot"


def test_ostree_tree_edits_the_default_deployment(tmp_path: Path) -> None:
    old = entry("1", "root=UUID=1 ostree=/ostree/boot.0/x/0")
    host = write(
        tmp_path,
        {
            "ostree/repo/config": "[core]\n",
            FOLDER + "ostree-1.conf": old,
            FOLDER + "ostree-2.conf": entry("2", "rw ostree=/ostree/boot.1/x/0 root=UUID=1"),
        },
    )
    done = bootloader.ensure(host, ASKED, [])
    assert done.loader == "ostree"
    assert done.after == "rw ostree=/ostree/boot.1/x/0 root=UUID=1 intel_iommu=on iommu=pt"
    assert host.read(FOLDER + "ostree-1.conf") == old
    assert not bootloader.ensure(host, ASKED, []).changed


def test_rpm_ostree_changes_in_one_transaction(tmp_path: Path) -> None:
    words = ["rw", "ostree=/x", "console=tty0", "iommu=nopt", "console=ttyS0"]

    def kargs(_host: FileHost, argv: Sequence[str]) -> Result:
        for option in argv[2:]:
            how, _sep, word = option.partition("=")
            if how == "--delete":
                words.remove(word)
            else:
                words.append(word)
        return Result(0, " ".join(words) + "\n", "")

    write(tmp_path, {"run/ostree-booted": "", "usr/bin/rpm-ostree": "", "proc/cmdline": " ".join(words)})
    host = Pretender(str(tmp_path), {"rpm-ostree": kargs})
    done = bootloader.ensure(host, ["iommu=pt", "console=tty0", "console=ttyS1"], [])
    assert done.before == "rw ostree=/x console=tty0 iommu=nopt console=ttyS0"
    assert done.after == " ".join(words)
    assert sorted(words) == sorted(["rw", "ostree=/x", "iommu=pt", "console=tty0", "console=ttyS1"])
    assert words.index("console=ttyS1") == words.index("console=tty0") + 1
    assert done.reboot_required
    assert not bootloader.ensure(host, ["iommu=pt", "console=tty0", "console=ttyS1"], []).changed


def test_grubby_has_the_last_word(tmp_path: Path) -> None:
    rhel9(tmp_path)
    write(tmp_path, {"usr/sbin/grubby": "", "proc/cmdline": "ro"})
    text = (tmp_path / "etc/default/grub").read_text()
    host = Pretender(
        str(tmp_path), {"grubby": lambda h, a: Result(0, 'index=0\nargs="ro quiet $tuned_params"\n', "")}
    )
    with pytest.raises(
        LoaderError, match=r"grubby says .* passes ro quiet \$tuned_params, but written is root=.*iommu=pt"
    ):
        bootloader.ensure(host, ASKED, [])
    assert (tmp_path / "etc/default/grub").read_text() == text
    host = Pretender(str(tmp_path), {"grubby": lambda h, a: Result(0, 'args="ro iommu=pt intel_iommu=on"\n', "")})
    assert bootloader.ensure(host, ASKED, []).changed
    assert host.ran == [["grubby", "--info=DEFAULT"]]


GUID = "-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"boot/efi/EFI/Linux/6.12.efi": "MZ", "boot/efi/loader/loader.conf": "timeout 1\n"}, "unified kernel image"),
        ({"efi/EFI/Linux/a.efi": "MZ"}, "unified kernel image /efi/EFI/Linux/a.efi"),
        ({"efi/EFI/Linux/a.efi": "MZ", "efi/loader/loader.conf": "default a.efi\n",
          "efi/loader/entries/x.conf": entry("1", "ro")}, "unified kernel image /efi/EFI/Linux/a.efi"),
        ({"sys/firmware/efi/efivars/StubInfo" + GUID: "\0\0\0\0s\0t\0", "boot/grub/grub.cfg": debian_cfg("")},
         "sealed inside"),
        ({"boot/loader/loader.conf": "", "boot/loader/entries/x.conf": "title X\nefi /x.efi\n"},
         "starts an EFI program"),
        ({"etc/os-release": "ID=debian\n"}, "PXE"),
        ({"etc/zipl.conf": ""}, "zipl"),
        ({"boot/grub/grub.cfg": "set check_signatures=enforce\n" + debian_cfg("")}, "signed files"),
        ({"boot/grub/grub.cfg": "# empty\n"}, "has no menu entry"),
    ],
)  # fmt: skip
def test_sealed_hosts_are_refused_with_the_reason(tmp_path: Path, files: dict[str, str], reason: str) -> None:
    host = write(tmp_path, files)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert reason in bootloader.observe(host)["sealed"]
    with pytest.raises(LoaderError, match="cannot be changed on this host: .*"):
        bootloader.ensure(host, ASKED, [])
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
    assert not bootloader.ensure(host, [], []).changed


@pytest.mark.parametrize(
    ("files", "loader"),
    [
        ({"etc/default/grub": "", "etc/os-release": "ID=debian\n"}, "systemd-boot"),
        ({"etc/default/grub": "", "etc/os-release": "ID=rocky\nID_LIKE='rhel centos fedora'\n"}, "grub-bls"),
        ({"etc/default/grub": "GRUB_ENABLE_BLSCFG=true\n"}, "grub-bls"),
        ({"boot/grub2/grubenv": block()}, "grub-bls"),
        ({"boot/grub2/grub.cfg": "# nothing\n", "boot/grub2/grubenv": block()}, "grub-bls"),
        ({"boot/grub/grub.cfg": debian_cfg("")}, "grub"),
        ({"boot/loader/loader.conf": "timeout 1\n"}, "systemd-boot"),
        ({"boot/loader/entries/b-2.conf": entry("2", "ro ostree=/ostree/boot.1/x/0")}, "ostree"),
    ],
)
def test_whose_entries_they_are(tmp_path: Path, files: dict[str, str], loader: str) -> None:
    write(tmp_path, {"boot/loader/entries/a-1.conf": entry("1", "root=/dev/r ro"), **files})
    assert bootloader.observe(FileHost(str(tmp_path)))["loader"] == loader


def test_container_is_refused(tmp_path: Path) -> None:
    rhel9(tmp_path, run__systemd__container="docker\n")
    assert "container" in bootloader.observe(Pretender(str(tmp_path), {}))["sealed"]
    assert bootloader.observe(FileHost(str(tmp_path)))["sealed"] == "", "a tree may be of a container's host"


def test_efi_variable_tells_which_loader_booted(tmp_path: Path) -> None:
    host = systemd_boot(tmp_path)
    write(tmp_path, {"boot/grub/grub.cfg": debian_cfg("")})
    assert bootloader.observe(host)["loader"] == "grub"
    write(
        tmp_path,
        {"sys/firmware/efi/efivars/LoaderInfo" + GUID: "\6\0\0\0" + "".join(c + "\0" for c in "systemd-boot 257")},
    )
    assert bootloader.observe(host)["loader"] == "systemd-boot"


def test_broken_environment_block_is_named(tmp_path: Path) -> None:
    host = rhel9(tmp_path)
    write(tmp_path, {"boot/grub2/grubenv": "garbage"})
    with pytest.raises(LoaderError, match="/boot/grub2/grubenv: no GRUB environment block"):
        bootloader.observe(host)


def test_probe_brings_home_what_observe_reads(tmp_path: Path) -> None:
    """The snapshot of the files in PROBE says the same as the tree."""
    import fnmatch

    for number, make in enumerate((rhel8, rhel9, systemd_boot)):
        root = tmp_path / str(number)
        root.mkdir()
        host = make(root)
        found: dict[str, str | bytes] = {}
        links: dict[str, str] = {}
        for path in root.rglob("*"):
            name = "/" + str(path.relative_to(root))
            if path.is_symlink():
                links[name] = str(path.readlink())
            elif path.is_file() and any(fnmatch.fnmatchcase(name, pattern) for pattern in bootloader.PROBE):
                found[name] = path.read_text()
        assert bootloader.observe(SnapshotHost(found, links)) == bootloader.observe(host)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("a-5.14.0-70.el9", "a-5.14.0-427.el9"),
        ("6.1~rc1", "6.1"),
        ("6.1", "6.1.1"),
        ("1-abc", "1-2"),
        ("x-9", "x-10"),
    ],
)
def test_versions(older: str, newer: str) -> None:
    assert bls.compare(older, newer) < 0 < bls.compare(newer, older)
    assert bls.compare(older, older) == 0


@given(
    st.dictionaries(
        st.from_regex(r"[a-z_]{1,8}", fullmatch=True),
        st.text(st.characters(codec="ascii", exclude_characters="\0\r"), max_size=40),
        max_size=6,
    )
)
def test_environment_block_holds_any_value(values: dict[str, str]) -> None:
    text = ""
    for name, value in values.items():
        text = grubenv.change(text, name, value)
        assert len(text) == 1024
    if text:
        assert grubenv.read(text) == values
        for name, value in values.items():
            assert grubenv.change(text, name, value) == text
