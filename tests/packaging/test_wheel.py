"""The wheel, in an environment that has nothing else: the command and the collection work from it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

import nearmetal

TOP = Path(__file__).resolve().parents[2]
INVENTORY = "[rack]\nnode0 ansible_connection=local\n"


def uv() -> str:
    """Path of the uv that made this environment."""
    ours = TOP / ".cache" / "uv"
    found = str(ours) if ours.exists() else shutil.which("uv")
    assert found, "uv is neither in .cache nor on PATH: run scripts/setup.sh python"
    return found


def run(argv: list[str], cwd: Path, home: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command that must work, without this checkout's settings in its environment."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("ANSIBLE_", "NEARMETAL_", "PYTHON", "VIRTUAL_ENV"))}
    if home:
        env["HOME"] = str(home)
    done = subprocess.run(argv, cwd=cwd, env=env, check=False, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, f"{' '.join(argv)}\n{done.stdout}"
    return done


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's wheel, built from this checkout."""
    out = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(TOP)], TOP)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def clean(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of programs of a new environment that has the wheel and its dependencies, as locked."""
    venv = tmp_path_factory.mktemp("venv")
    constraints = venv / "constraints.txt"
    run([uv(), "export", "--quiet", "--frozen", "--no-dev", "--no-emit-project", "--no-hashes",
         "--output-file", str(constraints)], TOP)
    run([uv(), "venv", "--quiet", "--clear", "--python", sys.executable, str(venv / "clean")], TOP)
    python = venv / "clean" / "bin" / "python"
    run([uv(), "pip", "install", "--quiet", "--python", str(python), "--constraint", str(constraints),
         str(wheel)], TOP)
    return python.parent


def test_wheel_holds_the_whole_collection(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "plugins", "roles",
         "playbooks", "meta"], cwd=TOP, check=True, stdout=subprocess.PIPE, text=True).stdout.split("\0")
    wanted = {f"ansible_collections/nearmetal/rack/{name}" for name in listed if (TOP / name).is_file()}
    assert wanted
    assert wanted - inside == set()
    assert not [name for name in inside if "/tests/" in name or "__pycache__" in name]


def test_command_says_the_version(clean: Path, tmp_path: Path) -> None:
    said = run([str(clean / "nearmetal"), "--version"], tmp_path, tmp_path).stdout
    assert nearmetal.__version__ in said.split()


def test_module_documentation(clean: Path, tmp_path: Path) -> None:
    said = run([str(clean / "ansible-doc"), "nearmetal.rack.host_info"], tmp_path, tmp_path).stdout
    assert "nearmetal.rack.host_info" in said
    assert str(clean.parent) in said, "the collection was found elsewhere than in the environment"


@pytest.mark.parametrize("role", sorted(p.name for p in (TOP / "roles").iterdir() if p.is_dir()))
def test_role_documentation(clean: Path, tmp_path: Path, role: str) -> None:
    said = run([str(clean / "ansible-doc"), "-t", "role", f"nearmetal.rack.{role}"], tmp_path, tmp_path).stdout
    assert role in said


@pytest.mark.parametrize("playbook", sorted(p.stem for p in (TOP / "playbooks").glob("*.yml")))
def test_playbook_syntax(clean: Path, tmp_path: Path, playbook: str) -> None:
    inventory = tmp_path / "hosts.ini"
    inventory.write_text(INVENTORY, encoding="utf-8")
    run([str(clean / "ansible-playbook"), "-i", str(inventory), "--syntax-check",
         f"nearmetal.rack.{playbook}"], tmp_path, tmp_path)


def test_one_version_everywhere() -> None:
    galaxy = yaml.safe_load((TOP / "galaxy.yml").read_text(encoding="utf-8"))
    assert galaxy["version"] == nearmetal.__version__
    changelog = yaml.safe_load((TOP / "changelogs" / "changelog.yaml").read_text(encoding="utf-8"))
    assert nearmetal.__version__ in changelog["releases"]
    assert re.search(rf"^v{re.escape(nearmetal.__version__)}$",
                     (TOP / "CHANGELOG.rst").read_text(encoding="utf-8"), re.M)
