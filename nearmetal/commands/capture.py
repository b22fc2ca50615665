"""capture: a scrubbed archive of what the probe reads."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from nearmetal import __version__, archives, bmc_capture, core
from nearmetal.commands import options
from nearmetal.commands.inspect import Become, OptionalInventory, Sysroot
from nearmetal.errors import BAD_INTENT, FAILED, USAGE, NearmetalError
from nearmetal.hosts import observe_hosts
from nearmetal.scrub import HOSTNAME_FILES, KINDS, Scrubber

Snapshot = dict[str, Any]
"""What the collector brings home: files, links, errors by path; folders; live."""


def read_host(host: str, inventory: str, become: bool, bmc: bool = False) -> Snapshot:
    """Snapshot of a live host; with its BMC's resources."""
    if inventory:
        options.check_inventory(inventory)
    observed = observe_hosts([host], inventory, become, raw=True, bmc=bmc)
    if observed.failed:
        raise NearmetalError("; ".join(f"{name}: {message}" for name, message in observed.failed.items()), FAILED)
    if len(observed.documents) != 1:
        names = ", ".join(observed.documents)
        raise NearmetalError(f"{host} names several hosts ({names}): capture one at a time", BAD_INTENT)
    return next(iter(observed.documents.values()))


def read_tree(path: Path) -> Snapshot:
    """Snapshot of what the probe reads in a captured tree; the rest of an archive is left behind."""
    host = archives.tree_host(path)
    with tempfile.TemporaryDirectory(prefix="nearmetal-") as scratch:
        root = getattr(host, "root", None) or _unpack(host, Path(scratch))
        probe = core.plugin("plugin_utils.probe").probe_paths()
        program = core.module("collector").program(root, probe)
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-"], input=program.encode(), stdout=subprocess.PIPE, check=True
        )
    data = json.loads(done.stdout.partition(b"\n")[2])
    data["files"] = {f"{folder}/{n}": text for folder, found in data["files"].items() for n, text in found.items()}
    data["errors"].update(getattr(host, "errors", {}))
    return {**data, "live": root == "/"}


def _unpack(host: Any, scratch: Path) -> str:
    """Write a host in memory to a folder; nothing that a link of the archive could carry elsewhere."""
    links = set(host.links)

    def place(path: str) -> Path | None:
        parts = path.strip("/").split("/")
        if any("/" + "/".join(parts[:end]) in links for end in range(1, len(parts))):
            return None
        target = scratch.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        return target

    for path in host.folders:
        target = place(path)
        if target is not None and path not in links and path not in host.files:
            target.mkdir(exist_ok=True)
    for path, content in host.files.items():
        target = place(path)
        if target is not None and path not in links and not target.is_dir():
            target.write_bytes(content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content)
    for path, to in host.links.items():
        target = place(path)
        if target is not None and not os.path.lexists(target):
            target.symlink_to(to)
    return str(scratch)


def scrub(data: Snapshot, keep: list[str], name: str) -> Snapshot:
    """The snapshot without what identifies machine or people."""
    hostnames = [str(data["files"].get(path, "")) for path in HOSTNAME_FILES] + [name.rpartition("@")[2]]
    try:
        scrubber = Scrubber(keep, [h for h in hostnames if h and not h.replace(".", "").isdigit()])
    except ValueError as err:
        raise NearmetalError(f"--keep: {err}", USAGE) from err
    return {
        "files": {**scrubber.files(data["files"]), **bmc_capture.files(data.get("bmc") or {}, scrubber)},
        "links": {scrubber.line(path): scrubber.line(target) for path, target in data["links"].items()},
        "errors": {scrubber.line(path): reason for path, reason in data["errors"].items()},
        "folders": [scrubber.line(path) for path in data["folders"]],
        "live": data["live"],
    }


def write(data: Snapshot, out: Path, keep: list[str]) -> None:
    """A .tar.gz with proc/, sys/ ... at its top; no times or owners; complete or not there at all."""
    note = {
        "schema": 1, "nearmetal": __version__, "scrubbed": [kind for kind in KINDS if kind not in keep],
        "errors": data["errors"],
    }  # fmt: skip
    files = {**data["files"], "/" + archives.NOTE: json.dumps(note, indent=1) + "\n"}
    draft = out.with_name(out.name + f".{os.getpid()}")
    try:
        with tarfile.open(draft, "w:gz") as archive:
            for path in sorted(set(data["folders"]) - set(files) - set(data["links"]) - {""}):
                _add(archive, path, tarfile.DIRTYPE)
            for path, target in sorted(data["links"].items()):
                _add(archive, path, tarfile.SYMTYPE, target=target)
            for path, content in sorted(files.items()):
                _add(archive, path, tarfile.REGTYPE, content)
        draft.replace(out)
    except OSError as err:
        draft.unlink(missing_ok=True)
        raise NearmetalError(f"cannot write {out}: {err.strerror}", FAILED) from err


def _add(archive: tarfile.TarFile, path: str, kind: bytes, content: str | bytes = b"", target: str = "") -> None:
    data = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
    member = tarfile.TarInfo(path.lstrip("/"))
    member.type, member.linkname, member.size = kind, target, len(data)
    member.mode = 0o755 if kind == tarfile.DIRTYPE else 0o644
    archive.addfile(member, io.BytesIO(data))


def summary(data: Mapping[str, Any], out: Path, keep: list[str]) -> str:
    """What was written, for the user."""
    gone = [kind for kind in KINDS if kind not in keep]
    text = f"{out}: {len(data['files'])} files, {out.stat().st_size / 1024:.0f} KiB"
    text += f"; scrubbed: {', '.join(gone)}" if gone else "; nothing scrubbed"
    return text + (f"; {len(data['errors'])} files could not be read" if data["errors"] else "")


def capture(
    host: Annotated[str, typer.Argument(help="Host: [user@]name as for ssh, or one of the inventory.")] = "",
    sysroot: Sysroot = None, inventory: OptionalInventory = "",
    out: Annotated[Path | None, typer.Option("--out", help="Archive to write (HOST.capture.tar.gz).")] = None,
    keep: Annotated[str, typer.Option(help=f"Kinds to leave in, with commas: {', '.join(KINDS)}.")] = "",
    bmc: Annotated[bool, typer.Option("--bmc", help="With the BIOS resources of its BMC, which bios_* name, in redfish/.")] = False,
    become: Become = False,
) -> None:  # fmt: skip
    """Save what the probe reads, without serials, MACs, addresses, UUIDs, host names, secrets."""
    if bmc and not (host and inventory):
        raise NearmetalError("--bmc needs a host of an inventory (-i) with the variables bios_baseuri, bios_username and "
                             "bios_password", USAGE)  # fmt: skip
    if bool(host) == (sysroot is not None):
        raise NearmetalError("give one host, or --sysroot PATH", USAGE)
    kinds = [kind.strip() for kind in keep.split(",") if kind.strip()]
    scrub({"files": {}, "links": {}, "errors": {}, "folders": [], "live": False}, kinds, "")  # bad --keep: say so first
    data = read_tree(sysroot) if sysroot is not None else read_host(host, inventory, become, bmc)
    name = host or (sysroot.name.split(".")[0] if sysroot is not None else "")
    target = out or Path(f"{name.rpartition('@')[2]}.capture.tar.gz")
    clean = scrub(data, kinds, host)
    write(clean, target, kinds)
    print(summary(clean, target, kinds))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(capture)
