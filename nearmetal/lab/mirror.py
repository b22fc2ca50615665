"""Where the packages of the node image come from: the Debian archive that this machine itself uses."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

MIRROR_VARIABLE = "NEARMETAL_LAB_MIRROR"
# Suites of the archive proper. Security and backports are other archives, or parts that lack most packages.
SUITES = frozenset({"bookworm", "trixie", "forky", "sid", "oldstable", "stable", "testing", "unstable"})
ONE_LINE = re.compile(r"^deb\s+(?:\[[^\]]*\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<components>.+)$", re.MULTILINE)


def one_line_sources(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """(URI, suite, components) of each `deb` line of a sources.list file."""
    for found in ONE_LINE.finditer(text):
        yield found["uri"], found["suite"], found["components"].partition("#")[0].split()


def deb822_sources(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """(URI, suite, components) of each enabled `deb` stanza of a .sources file."""
    for stanza in re.split(r"\n\s*\n", text):
        fields: dict[str, str] = {}
        key = ""
        for line in stanza.splitlines():
            if line.startswith("#"):
                continue
            value = line
            if not line[:1].isspace():
                name, _, value = line.partition(":")
                key = name.strip().lower()
            fields[key] = f"{fields.get(key, '')} {value.strip()}"
        if fields.get("enabled", "yes").strip().lower() == "no" or "deb" not in fields.get("types", "").split():
            continue
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                yield uri, suite, fields.get("components", "").split()


def debian_archive(apt: Path) -> str | None:
    """URI of the Debian archive named in apt's configuration folder; None if there is none."""
    files = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]
    for path in files:
        if path.suffix not in (".list", ".sources") or not path.is_file():
            continue
        parse = deb822_sources if path.suffix == ".sources" else one_line_sources
        for uri, suite, components in parse(path.read_text(errors="replace")):
            if suite in SUITES and "main" in components and uri.startswith(("http:", "https:", "file:")):
                return uri
    return None


def find_mirror(apt: Path = Path("/etc/apt")) -> str | None:
    """URI of the Debian archive; None where this machine names none, as Ubuntu: mmdebstrap then takes its own default."""
    return os.environ.get(MIRROR_VARIABLE) or debian_archive(apt)


def apt_transport_options() -> list[str]:
    """The machine's own proxy and certificate settings for apt, as options for mmdebstrap."""
    if not shutil.which("apt-config"):
        return []
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False).stdout
    wanted = ("acquire::http::proxy", "acquire::https::proxy", "acquire::https::cainfo")
    lines = [line for line in dump.splitlines() if line.lower().startswith(wanted) and '""' not in line]
    return [f"--aptopt={line.rstrip(';')}" for line in lines]
