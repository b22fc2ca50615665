"""Run `ansible-test sanity` on a copy of the collection.

ansible-test wants to stand in a real folder ansible_collections/NAMESPACE/NAME (it resolves links), so
the collection's files are copied to .cache/sanity. Its virtual environments are kept there too, which
makes the second run quick. Arguments are handed on: `sanity.py --test validate-modules`.
"""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
from pathlib import Path

from ansible_test._internal.host_configs import VirtualPythonConfig
from ansible_test._internal.python_requirements import get_venv_packages

TOP = Path(__file__).resolve().parent.parent
WORK = TOP / ".cache" / "sanity"
COPY = WORK / "ansible_collections" / "nearmetal" / "rack"
PARTS = ("plugins", "roles", "playbooks", "meta", "changelogs", "tests/sanity", "galaxy.yml", "README.md",
         "CHANGELOG.rst", "COPYING")
"""What belongs to the collection; the rest of the checkout is the Python package and its tests."""

NETWORK = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "UV_")
"""How this machine reaches its package index; ansible-test drops these variables."""

PIP_FROM_UV = """\
import os, subprocess, sys
os.environ.update({network!r})
wanted = [a for a in sys.argv[1:] if a.startswith("pip==")]
sys.exit(subprocess.call([{uv!r}, "pip", "install", "-q", "--python", sys.executable, *wanted]))
"""


def wanted_files() -> list[str]:
    """List tracked files and new ones that git does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *PARTS],
        cwd=TOP, check=True, stdout=subprocess.PIPE, text=True,
    ).stdout
    return sorted({name for name in listed.split("\0") if name and (TOP / name).is_file()})


def refresh_copy(names: list[str]) -> None:
    """Make the copy hold exactly these files; times are kept, so that caches stay valid."""
    wanted = set(names)
    for path in COPY.rglob("*"):
        name = path.relative_to(COPY).as_posix()
        if path.is_file() and name not in wanted and not name.startswith(("tests/output/", ".git/")):
            path.unlink()
    for name in names:
        (COPY / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(TOP / name, COPY / name)
    # A repository of its own: ansible-test asks git for the files, and to the checkout's git this
    # folder is an ignored one.
    subprocess.run(["git", "init", "--quiet", str(COPY)], check=True, stdin=subprocess.DEVNULL)


def provide_pip(home: Path, python_version: str) -> None:
    """Put a pip installer where ansible-test caches the one that it would download.

    It does so for the virtual environments of its checks, from a place that is no package index and is
    often not reachable. uv installs the pinned version from the package index instead.
    """
    version = get_venv_packages(VirtualPythonConfig(version=python_version))["pip"]
    cache = home / ".ansible" / "test" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    uv = str((TOP / ".cache" / "uv").resolve())  # the one that setup found to work: one on PATH may be a mere shim
    network = {key: value for key, value in os.environ.items() if key.upper().startswith(NETWORK)}
    script = cache / f"get_pip_{version.replace('.', '_')}.py"
    script.write_text(PIP_FROM_UV.format(uv=uv, network=network), encoding="utf-8")
    script.chmod(0o600)


def pip_settings(home: Path) -> None:
    """Write what pip is told here, by file or by PIP_* variables, to that home's pip.conf."""
    settings = configparser.RawConfigParser()
    real = Path.home()
    files = [real / ".pip" / "pip.conf", real / ".config" / "pip" / "pip.conf"]
    settings.read([*files, os.environ.get("PIP_CONFIG_FILE", "")])
    if not settings.has_section("global"):
        settings.add_section("global")
    for key, value in os.environ.items():
        if key.startswith("PIP_") and key != "PIP_CONFIG_FILE" and value:
            settings.set("global", key.removeprefix("PIP_").lower().replace("_", "-"), value)
    target = home / ".config" / "pip" / "pip.conf"
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("w", encoding="utf-8") as out:
        settings.write(out)
    target.chmod(0o600)


def environment(home: Path) -> dict[str, str]:
    """Give ansible-test a home of its own."""
    env = dict(os.environ, HOME=str(home), PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    env.pop("ANSIBLE_COLLECTIONS_PATH", None)
    return env


def main(arguments: list[str]) -> int:
    """Copy, then run; returns ansible-test's exit status."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    home = WORK / "home"
    refresh_copy(wanted_files())
    provide_pip(home, version)
    pip_settings(home)
    command = [str(Path(sys.executable).parent / "ansible-test"), "sanity", "--python", version,
               "--color", "no", *arguments]
    return subprocess.call(command, cwd=COPY, env=environment(home), stdin=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
