"""Where the packages of the node image come from: the Debian archive that this machine itself uses."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable

from ..errors import NearmetalError

MIRROR_VARIABLE = "NEARMETAL_LAB_MIRROR"
FORMAT = "$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(ORIGIN)|$(LABEL)"


def debian_archive(lines: Iterable[str]) -> str | None:
    """Pick the Debian archive from `apt-get indextargets` lines of FORMAT.

    The archive proper, not its security or backports part, as only that one holds every release.
    """
    for line in lines:
        uri, _, release_and_rest = line.strip().partition("|")
        release, component, origin, label = (*release_and_rest.split("|"), "", "", "", "")[:4]
        if component == "main" and origin == label == "Debian" and "-" not in release:
            return uri
    return None


def find_mirror() -> str:
    """URI of the Debian archive. Raises NearmetalError that says how to name one."""
    if named := os.environ.get(MIRROR_VARIABLE):
        return named
    reason = "apt-get is not there"
    if shutil.which("apt-get"):
        done = subprocess.run(
            ["apt-get", "indextargets", "--format", FORMAT, "Created-By: Packages"],
            capture_output=True, text=True, check=False,
        )
        if found := debian_archive(done.stdout.splitlines()):
            return found
        reason = done.stderr.strip() or "no Debian archive among the apt sources (apt-get update fetches their lists)"
    raise NearmetalError(
        f"The node image is built from a Debian archive, and this machine knows none: {reason}. "
        f"Set {MIRROR_VARIABLE} to the address of one, and install the package debian-archive-keyring."
    )


def apt_transport_options() -> list[str]:
    """The machine's own proxy and certificate settings for apt, as options for mmdebstrap."""
    if not shutil.which("apt-config"):
        return []
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False).stdout
    wanted = ("acquire::http::proxy", "acquire::https::proxy", "acquire::https::cainfo")
    lines = [line for line in dump.splitlines() if line.lower().startswith(wanted) and '""' not in line]
    return [f"--aptopt={line.rstrip(';')}" for line in lines]
