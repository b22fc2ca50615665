"""The module as Ansible runs it: a process that gets its arguments on stdin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOP = Path(__file__).resolve().parents[4]
MODULE = TOP / "plugins" / "modules" / "kernel_cmdline.py"


def run(root: Path, check: bool = False, module: Path = MODULE, **args: Any) -> dict[str, Any]:
    """Result of one call."""
    internal = {"_ansible_check_mode": check, "_ansible_diff": True, "_ansible_remote_tmp": str(root.parent)}
    options = {"root": str(root), **args, **internal}
    environment = {**os.environ, "PYTHONPATH": str(TOP / ".cache" / "collections")}
    done = subprocess.run(
        [sys.executable, str(module)], input=json.dumps({"ANSIBLE_MODULE_ARGS": options}),
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert done.stdout, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A Debian tree without grub.cfg."""
    root = tmp_path / "tree"
    (root / "etc/default/grub.d").mkdir(parents=True)
    (root / "etc/os-release").write_text("ID=debian\n")
    (root / "etc/default/grub").write_text('GRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX=""\n')
    return root


def contents(root: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_check_mode_says_the_same_as_the_change(tree: Path) -> None:
    before = contents(tree)
    asked = {"args": ["console=tty0", "console=ttyS0"], "absent": ["quiet"]}
    would = run(tree, check=True, **asked)
    assert contents(tree) == before
    did = run(tree, **asked)
    assert contents(tree) != before
    for key in ("changed", "before", "after", "diff", "files", "running", "reboot_required", "bootloader"):
        assert would[key] == did[key], key
    assert did["changed"] is True
    assert (did["before"], did["after"]) == ("quiet", "console=tty0 console=ttyS0")
    assert (did["running"], did["reboot_required"], did["bootloader"]) == (None, False, "grub")
    assert did["diff"][0]["before"] == "quiet\n"
    assert did["diff"][1]["after_header"] == "/etc/default/grub"
    assert did["diff"][1]["after"] == (tree / "etc/default/grub").read_text()
    after = contents(tree)
    for check in (True, False):
        again = run(tree, check=check, **asked)
        assert (again["changed"], again["diff"], again["before"], again["after"]) == (
            False, [], "console=tty0 console=ttyS0", "console=tty0 console=ttyS0")  # fmt: skip
    assert contents(tree) == after


def test_running_kernel_is_compared(tree: Path) -> None:
    (tree / "proc").mkdir()
    (tree / "proc/cmdline").write_text("BOOT_IMAGE=/v root=/dev/r quiet rcu_nocbs=2-3\n")
    result = run(tree, args=["rcu_nocbs=2,3"])
    assert (result["changed"], result["reboot_required"]) == (True, False)
    assert result["running"] == "BOOT_IMAGE=/v root=/dev/r quiet rcu_nocbs=2-3"
    assert run(tree, absent=["quiet"])["reboot_required"] is True


def test_nothing_asked_changes_nothing(tree: Path) -> None:
    result = run(tree)
    assert (result["changed"], result["before"], result["after"]) == (False, "quiet", "quiet")


def test_code_in_the_defaults_is_said(tree: Path) -> None:
    with (tree / "etc/default/grub").open("a") as f:
        f.write("if true; then X=1; fi\n")
    result = run(tree, args=["a=1"])
    assert "/etc/default/grub line 3 does more than assign" in str(result["warnings"])
    assert result["files"] == ["/etc/default/grub.d/zz-nearmetal.cfg"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"args": ["a b"]}, "args: 'a b' is more than one word: write one list item each"),
        ({"args": ["iommu=pt"], "absent": ["iommu"]}, "absent: 'iommu' would remove iommu=pt"),
        ({"args": [""]}, "args: '' is empty"),
    ],
)
def test_bad_request_is_one_clear_message(tree: Path, args: dict[str, Any], message: str) -> None:
    before = contents(tree)
    result = run(tree, **args)
    assert result["failed"]
    assert message in result["msg"]
    assert contents(tree) == before


def test_sealed_host_is_refused(tmp_path: Path) -> None:
    (tmp_path / "efi/EFI/Linux").mkdir(parents=True)
    (tmp_path / "efi/EFI/Linux/linux.efi").write_bytes(b"MZ")
    result = run(tmp_path, args=["a=1"])
    assert result["failed"]
    assert "unified kernel image /efi/EFI/Linux/linux.efi" in result["msg"]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("kernel_cmdline", {"args": ["a=1"]}),
        ("hugepages", {"pages": [{"size": "2M", "node": 0, "count": 1}]}),
        ("cpu_isolation", {"reserved": "0"}),
        ("host_info", {}),
    ],
)
def test_root_that_is_not_there(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    result = run(tmp_path / "typo", module=MODULE.with_name(name + ".py"), **options)
    assert result["failed"]
    assert "is no folder on this host" in result["msg"]
    assert not (tmp_path / "typo").exists()
