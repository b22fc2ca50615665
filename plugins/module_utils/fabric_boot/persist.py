# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What brings the fabric back at boot: our files, compared with what is there (pure), and written.

Parts: the owner's files of each bond, /etc/nearmetal/fabric.json, the program, the two units and their links.
"""

from __future__ import annotations

import hashlib
from typing import Dict, List, Mapping, NamedTuple, Optional, Tuple

from ..fabric.shapes import Desired, FabricError
from ..host import Host, HostError, Missing
from ..model import Problem, Step
from ..state import Fabric
from . import bootfile, owners, program, units
from .bondview import NETPLAN, NM, OUTSIDE, view

Files = Dict[str, Tuple[str, int]]


class Wanted(NamedTuple):
    """changes: {path: (text, mode), or None to remove}. touched: owners whose files differ. enable: links are missing.

    failed: a unit failed at boot, and others wait for it. last: no other role's part is brought about after this one.
    absent: program and units are not needed any more. choices: who makes each bond, with the evidence.
    """

    changes: Dict[str, Optional[Tuple[str, int]]]
    touched: List[str]
    enable: bool
    absent: bool
    choices: Dict[str, owners.Choice]
    problems: List[Problem]
    failed: bool = False
    last: bool = True

    def __bool__(self) -> bool:
        return bool(self.changes) or self.enable or self.failed


def wanted(role: str, desired: Desired, fabric: Fabric) -> Wanted:
    """For the part of one role ("sriov", "vf_lag"). What the wish does not name stays as it was, as on the running host."""
    own = fabric["managers"]["own"]
    choices = {bond.name: owners.choose(bond, fabric) for bond in desired.bonds}
    found = [problem for choice in choices.values() for problem in choice.problems]
    parts: Dict[str, Desired] = {}
    if bootfile.PATH in own:
        try:
            parts = bootfile.parse(own[bootfile.PATH])
        except FabricError:
            parts = {}  # not ours, or half of it: it is written anew
    kept = bootfile.unnamed(parts.get(role, Desired()), desired)
    made = bootfile.at_boot(desired, {name: choice.owner for name, choice in choices.items()})
    parts[role] = Desired((*kept.pfs, *made.pfs), (*kept.bonds, *made.bonds), made.lag_timeout)
    changes = _network(role, choices, kept, fabric)
    touched = sorted({owners.owner_of(path) for path in changes})
    text = bootfile.dump(parts)
    needed: Files = {bootfile.PATH: (text, 0o644), **units.files(bootfile.merged(parts).lag_timeout)} if text else {}
    for path in (bootfile.PATH, *("%s/%s" % (units.FOLDER, name) for name in units.NAMES)):
        value = needed.get(path)
        if own.get(path) != (value[0] if value else None):
            changes[path] = value
    enable = bool(text) and any(link not in own for link in units.LINKS)
    # The units bring about all parts: where the bonds' part is still to be done, starting them now would fail.
    last = role == "vf_lag" or not parts.get("vf_lag", Desired()).bonds
    failed = bool(text) and last and "failed" in fabric["units"].values()
    return Wanted(changes, touched, enable, not text, choices, found, failed, last)


def _network(
    role: str, choices: Mapping[str, owners.Choice], kept: Desired, fabric: Fabric
) -> Dict[str, Optional[Tuple[str, int]]]:
    """Files of the owners that differ. Only the role of the bonds has such files."""
    if role != "vf_lag":
        return {}
    own = fabric["managers"]["own"]
    files: Files = {}
    for choice in choices.values():
        files.update(choice.files)
    for bond in kept.bonds:
        if bond.owner not in ("", OUTSIDE):
            files.update({path: (own[path], 0) for path in owners.render(bond.owner, view(bond, fabric)) if path in own})
    every = {path for path in own if owners.owner_of(path)} | set(files)
    return {path: files.get(path) for path in sorted(every) if own.get(path) != (files[path][0] if path in files else None)}


def steps(role: str, want: Wanted) -> List[Step]:
    """As the plan shows it. Nothing that runs is disturbed."""
    if not want:
        return []
    said = []
    for verb, there in (("written", True), ("removed", False)):
        paths = [path for path in sorted(want.changes) if (want.changes[path] is not None) == there]
        said += ["%s: %s" % (verb, ", ".join(_grouped(paths)))] if paths else []
    if want.enable:
        said.append("the units are enabled")
    if want.failed:
        said.append("the units that failed are started again")
    made = ["%s is made at boot by %s: %s" % (name, c.owner or "the boot units", c.foreign or c.why)
            for name, c in sorted(want.choices.items()) if c.why]  # fmt: skip
    after = "gone" if want.absent else "at boot as now"
    return [Step(role, "boot", "not as wanted", after, "; ".join(said + made), "none", "the files, read again")]


def _grouped(paths: List[str]) -> List[str]:
    """Files of an owner are many: how many and where; the diff has them all."""
    found: Dict[str, List[str]] = {}
    for path in paths:
        folder = path.rpartition("/")[0]
        found.setdefault(folder if owners.owner_of(path) or folder == units.FOLDER else path, []).append(path)
    return ["%d files in %s" % (len(group), key) if len(group) > 1 else group[0] for key, group in found.items()]


def shown(want: Wanted) -> Dict[str, Optional[str]]:
    """For a diff: {path: new text, None where it goes}."""
    return {path: value[0] if value else None for path, value in want.changes.items()}


def write(host: Host, want: Wanted, renderer: str) -> None:
    """Write, let systemd and the owners read. The program comes first: a unit must not name what is not there."""
    if not want and (want.absent or program_is_current(host)):
        return
    if not want.absent:
        install_program(host)
    else:
        _run(host, "systemctl", "disable", *units.NAMES)
    for path, value in sorted(want.changes.items()):
        if value is None:
            host.remove(path)
        else:
            host.write(path, value[0], mode=value[1])
    if any(path.startswith(units.FOLDER) for path in want.changes) or want.enable:
        _run(host, "systemctl", "daemon-reload")
        if not want.absent:
            _run(host, "systemctl", "enable", *units.NAMES)
    load(host, want.touched, renderer)


def load(host: Host, touched: List[str], renderer: str) -> None:
    """Let the owners whose files changed read them."""
    for owner in touched:
        for argv in owners.load(owner, renderer):
            _run(host, *argv)


def start(host: Host) -> None:
    """Run both units: with nothing left to do they prove that they work, and systemd knows them as active."""
    _run(host, "systemctl", "start", *units.NAMES)


def install_program(host: Host) -> bool:
    """Write the program where it is not there, or not as built from these sources; whether it was written."""
    if program_is_current(host):
        return False
    host.write(program.PATH, program.text(), mode=0o755, backup=False)
    return True


def program_is_current(host: Host) -> bool:
    """Whether the program on the host is that of these sources."""
    try:
        return hashlib.sha256(host.read_bytes(program.PATH)).hexdigest() == program.digest()
    except Missing:
        return False


def own_files(texts: Mapping[str, str]) -> Files:
    """Our files (`managers.own`) with their modes, as the guard keeps them; links of units are told apart."""
    return {
        path: (text, 0o600 if owners.owner_of(path) in (NM, NETPLAN) else 0o644)
        for path, text in texts.items() if path not in units.LINKS
    }  # fmt: skip


def put_back(host: Host, former: Files, now: Mapping[str, str], enabled: bool) -> List[str]:
    """Our files as they were; the owners whose files that changed. now, enabled: `managers.own` now, units enabled then."""
    touched = set()
    systemd = False
    if not enabled and any(link in now for link in units.LINKS):
        _run(host, "systemctl", "disable", *units.NAMES)
        systemd = True
    for path in sorted({*former, *own_files(now)}):
        if path in former and now.get(path) != former[path][0]:
            host.write(path, former[path][0], mode=former[path][1], backup=False)
        elif path not in former:
            host.remove(path, backup=False)
        else:
            continue
        touched.add(owners.owner_of(path))
        systemd = systemd or path.startswith(units.FOLDER)
    if systemd:
        _run(host, "systemctl", "daemon-reload")
    if enabled and any(link not in now for link in units.LINKS):
        _run(host, "systemctl", "enable", *units.NAMES)
    return sorted(owner for owner in touched if owner)


def _run(host: Host, *argv: str) -> None:
    said = host.run(list(argv))
    if said.rc != 0:
        text = " ".join((said.stderr or said.stdout).split())
        raise HostError(" ".join(argv), text or "exit status %d" % said.rc)


def generators(touched: List[str]) -> List[List[str]]:
    """What has to run before the network at boot so that files put back count: netplan's generator ran already."""
    return [["netplan", "generate"]] if NETPLAN in touched else []
