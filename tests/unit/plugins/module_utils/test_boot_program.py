"""The program that runs at boot: built from the sources, the same everywhere, and run as a process on a tree."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric.shapes import (
    Desired,
    DesiredBond,
    DesiredPf,
)
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric_boot import bootfile, program, units

pytestmark = pytest.mark.simulated

TOP = Path(__file__).resolve().parents[4]
SOURCES = TOP / "plugins" / "module_utils"
PF0, PF1 = "0000:08:00.0", "0000:08:00.1"


@pytest.fixture
def pyz(tmp_path: Path) -> Path:
    path = tmp_path / "fabric.pyz"
    path.write_bytes(program.build())
    return path


def run(pyz: Path, *words: str, python: str = sys.executable, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([python, "-I", str(pyz), *words], capture_output=True, text=True, cwd=cwd, check=False, timeout=60)


def names(pyz: Path) -> dict[str, str]:
    with zipfile.ZipFile(pyz) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_same_sources_same_bytes(pyz: Path, tmp_path: Path) -> None:
    """From files, from a copy elsewhere that is called otherwise, and from a zip, as inside an Ansible module."""
    copy = tmp_path / "elsewhere" / "package"
    shutil.copytree(SOURCES, copy)
    shutil.make_archive(str(tmp_path / "packed"), "zip", copy.parent)
    code = "import sys; sys.path.insert(0, sys.argv[1]); from package.fabric_boot import program; print(program.digest())"
    for where in (copy.parent, tmp_path / "packed.zip"):
        said = subprocess.run([sys.executable, "-I", "-c", code, str(where)], capture_output=True, text=True, check=True)
        assert said.stdout.strip() == program.digest()
    inside = f"import sys; sys.path.insert(0, {str(pyz)!r}); from nearmetal_host.fabric_boot import program; print(program.digest())"
    said = subprocess.run([sys.executable, "-I", "-c", inside], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == program.digest()


def test_changed_source_other_bytes(tmp_path: Path) -> None:
    copy = tmp_path / "package"
    shutil.copytree(SOURCES, copy)
    with (copy / "cpulist.py").open("a") as f:
        f.write("# changed\n")
    code = "import sys; sys.path.insert(0, sys.argv[1]); from package.fabric_boot import program; print(program.digest())"
    said = subprocess.run([sys.executable, "-I", "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert said.stdout.strip() != program.digest()


def test_has_every_module_that_it_imports(pyz: Path) -> None:
    """What a compiler sees of imports is what our own reader of imports found, functions' own imports included."""
    files = names(pyz)
    modules = {name.removesuffix(".py").replace("/", ".").removesuffix(".__init__") for name in files}
    for name, text in files.items():
        package = name.removesuffix(".py").split("/")[:-1]
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.ImportFrom) or not node.level:
                continue
            base = ".".join([*package[: len(package) - node.level + 1], *(node.module or "").split(".")]).strip(".")
            assert base in modules, (name, base)
            for alias in node.names:
                path = SOURCES.joinpath(*base.split(".")[1:], alias.name + ".py")
                assert not path.exists() or f"{base}.{alias.name}" in modules, (name, alias.name)


def test_packages_hold_no_code() -> None:
    """They are empty in the program, whatever loads them."""
    for package in ("", "fabric", "fabric_boot", "observe"):
        body = ast.parse((SOURCES / package / "__init__.py").read_text()).body
        assert all(isinstance(node, ast.Expr) for node in body), package


def test_is_text_for_a_host(pyz: Path) -> None:
    assert program.text().encode("utf-8", "surrogateescape") == pyz.read_bytes()


def test_every_source_is_for_python_3_9(pyz: Path) -> None:
    for name, text in names(pyz).items():
        ast.parse(text, name, feature_version=(3, 9))
    ast.parse(program.MAIN, feature_version=(3, 6))


def test_usage(pyz: Path) -> None:
    for words in ([], ["whatever"], ["confirm"], ["early", "x"]):
        assert run(pyz, *words).returncode == 64


def test_nothing_is_wanted(pyz: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    said = run(pyz, "--root", str(root), "late")
    assert said.returncode == 0, said.stderr
    status = json.loads((root / "run/nearmetal/fabric-status.json").read_text())
    assert status["late"]["state"] == "ok" and status["late"]["error"] == ""
    assert (root / "run/nearmetal/fabric-ready").exists()


def test_fails_loudly(pyz: Path, tmp_path: Path) -> None:
    """A bond of PFs that are not there: exit status, journal and status file say so, and nobody is told to go on."""
    root = tmp_path / "root"
    (root / "etc/nearmetal").mkdir(parents=True)
    (root / "run/nearmetal").mkdir(parents=True)
    (root / "run/nearmetal/fabric-ready").write_text("of another run\n")
    wanted = Desired((DesiredPf(PF0, vfs=2),), (DesiredBond("bond0", (PF0, PF1), owner="networkd"),), lag_timeout=0)
    (root / "etc/nearmetal/fabric.json").write_text(bootfile.dump({"vf_lag": wanted}))
    (root / "sys/class/net").mkdir(parents=True)
    (root / "sys/bus/pci/devices").mkdir(parents=True)
    code = f"""
import sys
sys.path.insert(0, {str(pyz)!r})
from nearmetal_host.fabric_boot import bootrun, main
bootrun.PF_WAIT = 0
sys.exit(main.main(["--root", {str(root)!r}, "early"]))
"""
    said = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert said.returncode == 1
    assert f"FAILED: {PF0}, {PF1}: no such PF" in said.stderr
    status = json.loads((root / "run/nearmetal/fabric-status.json").read_text())
    assert status["early"]["state"] == "failed" and "no such PF" in status["early"]["error"]


def test_broken_wish(pyz: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "etc/nearmetal").mkdir(parents=True)
    (root / "etc/nearmetal/fabric.json").write_text('{"version": 1, "par')
    said = run(pyz, "--root", str(root), "late")
    assert said.returncode == 1 and "/etc/nearmetal/fabric.json" in said.stderr
    assert not (root / "run/nearmetal/fabric-ready").exists()


def test_boot_file_round_trip() -> None:
    one = Desired((DesiredPf(PF0, vfs=2),), (DesiredBond("bond0", (PF0, PF1), owner="networkd"),), 90)
    other = Desired((DesiredPf("0000:09:00.0", vfs=1), DesiredPf(PF1, vfs=7)))
    parts = bootfile.parse(bootfile.dump({"vf_lag": one, "sriov": other}))
    assert parts == {"vf_lag": one, "sriov": other}
    merged = bootfile.merged(parts)
    assert [pf.address for pf in merged.pfs] == [PF0, "0000:09:00.0"]  # the bond's port is the business of vf_lag
    assert merged.lag_timeout == 90
    assert bootfile.dump({"sriov": Desired()}) == ""


def test_what_is_absent_needs_nothing_at_boot() -> None:
    gone = Desired((DesiredPf(PF0, vfs=0, eswitch="legacy"), DesiredPf(PF1, vfs=0)), (DesiredBond("bond0", (PF0, PF1), absent=True),))
    assert bootfile.at_boot(gone, {}) == Desired()


def test_units(tmp_path: Path) -> None:
    made = units.files(60)
    early, late = (made[f"/etc/systemd/system/{name}"][0] for name in units.NAMES)
    assert "ExecStart=/usr/bin/python3 /usr/local/lib/nearmetal/fabric.pyz early\n" in early
    assert "Before=network-pre.target" in early and "Wants=network-pre.target" in early and "DefaultDependencies=no" in early
    assert "ExecStart=/usr/bin/python3 /usr/local/lib/nearmetal/fabric.pyz late\n" in late
    assert "After=network-online.target" in late and "Before=kubelet.service" in late and "RequiredBy=kubelet.service" in late
    assert program.digest() in early and program.digest() in late


PYTHONS: list[Any] = [p for p in ("python3.9", "python3.10") if shutil.which(p)]


@pytest.mark.parametrize("python", [*PYTHONS, sys.executable])
def test_runs_with_old_pythons(pyz: Path, tmp_path: Path, python: str) -> None:
    """As many as this machine has."""
    real = subprocess.run([python, "-c", "import sys; print(sys.executable)"], capture_output=True, text=True, check=False)
    said = run(pyz, "--root", str(tmp_path), "status", python=real.stdout.strip() or sys.executable)
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout) == {"guard": None, "boot": {}}
