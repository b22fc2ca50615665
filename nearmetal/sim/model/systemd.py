"""systemd on a simulated host: unit files, what is enabled, what runs, timers, and the order of a boot.

Sources: systemd.unit(5) (drop-ins, Wants=, Requires=, RequiredBy=, conditions), systemd.service(5) (oneshot, several
ExecStart=), systemctl(1) (exit status of is-active and is-enabled, links of enable), systemd-run(1).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import osfiles

State = dict[str, Any]
Files = Any
"""What gives this module the host's files: read_text(path) or None, names(folder), write, unlink."""

ETC, USR = "/etc/systemd/system", "/usr/lib/systemd/system"
FOLDERS = (ETC, "/run/systemd/system", USR)
TARGETS = (
    "sysinit.target",
    "basic.target",
    "network-pre.target",
    "network.target",
    "network-online.target",
    "multi-user.target",
)
"""The milestones of a boot, in their order."""


@dataclass
class Unit:
    """What a unit's files say."""

    name: str
    keys: dict[str, list[str]] = field(default_factory=dict)
    there: bool = False

    def words(self, key: str) -> list[str]:
        """All words of a key that may stand several times."""
        return [word for value in self.keys.get(key, []) for word in value.split()]


def read_unit(files: Files, name: str) -> Unit:
    """A unit with its drop-ins. An empty assignment clears the list."""
    unit = Unit(name)
    texts = []
    for folder in FOLDERS:
        text = files.read_text(f"{folder}/{name}")
        if text is not None:
            unit.there = True
            texts.append(text)
            break
    for folder in FOLDERS:
        for part in files.names(f"{folder}/{name}.d"):
            if part.endswith(".conf"):
                texts.append(files.read_text(f"{folder}/{name}.d/{part}") or "")
    section = ""
    for text in texts:
        for raw in text.replace("\\\n", " ").splitlines():
            line = raw.strip()
            if line.startswith("["):
                section = line.strip("[]")
            elif line and line[0] not in "#;" and "=" in line:
                key, value = (part.strip() for part in line.split("=", 1))
                if value:
                    unit.keys.setdefault(f"{section}.{key}", []).append(value)
                else:
                    unit.keys[f"{section}.{key}"] = []
    return unit


def exists(state: State, files: Files, name: str) -> bool:
    """Whether systemd knows the unit."""
    return name in TARGETS or name in osfiles.services(state) or read_unit(files, name).there


def enable(state: State, files: Files, names: list[str]) -> tuple[int, str, str]:
    """Systemctl enable: links in the folders of what wants or requires the unit."""
    said = []
    for name in names:
        if name in osfiles.services(state):
            state["units"].setdefault(name, {})["enabled"] = True
            continue
        unit = read_unit(files, name)
        if not unit.there:
            return 1, "", f"Failed to enable unit: Unit {name} does not exist\n"
        wanted = unit.words("Install.WantedBy"), unit.words("Install.RequiredBy")
        if not wanted[0] and not wanted[1]:
            said.append("The unit files have no installation config (WantedBy=, RequiredBy=, ...).\n")
        for above, kind in [*((w, "wants") for w in wanted[0]), *((r, "requires") for r in wanted[1])]:
            link = f"{ETC}/{above}.{kind}/{name}"
            if not files.there(link):
                files.symlink(link, f"{ETC}/{name}")
                said.append(f"Created symlink {link} -> {ETC}/{name}.\n")
    return 0, "", "".join(said)


def disable(state: State, files: Files, names: list[str]) -> tuple[int, str, str]:
    """Systemctl disable: the links go, wherever they are."""
    said = []
    for name in names:
        if name in osfiles.services(state):
            state["units"].setdefault(name, {})["enabled"] = False
        for folder in files.names(ETC):
            if folder.endswith((".wants", ".requires")) and name in files.names(f"{ETC}/{folder}"):
                files.unlink(f"{ETC}/{folder}/{name}")
                said.append(f"Removed {ETC}/{folder}/{name}.\n")
    return 0, "", "".join(said)


def is_enabled(state: State, files: Files, name: str) -> tuple[int, str, str]:
    """Systemctl is-enabled."""
    builtin = osfiles.services(state)
    if name in builtin:
        on = state["units"].get(name, {}).get("enabled", builtin[name])
        return (0, "enabled\n", "") if on else (1, "disabled\n", "")
    unit = read_unit(files, name)
    if not unit.there:
        return 4, "not-found\n", ""
    linked = any(
        name in files.names(f"{ETC}/{folder}")
        for folder in files.names(ETC)
        if folder.endswith((".wants", ".requires"))
    )
    if linked:
        return 0, "enabled\n", ""
    return (1, "disabled\n", "") if any(k.startswith("Install.") for k in unit.keys) else (0, "static\n", "")


def active(state: State, name: str) -> str:
    """active, inactive or failed."""
    if name.endswith(".timer"):
        return "active" if name[:-6] in state["timers"] else "inactive"
    return str(state["units"].get(name, {}).get("active", "inactive"))


def dependencies(files: Files, name: str) -> tuple[set[str], set[str]]:
    """(wanted, required) units of a unit: by its own words, and by the folders of links."""
    unit = read_unit(files, name)
    wants, requires = (
        set(unit.words("Unit.Wants")),
        set(unit.words("Unit.Requires") + unit.words("Unit.BindsTo")),
    )
    for folder in FOLDERS:
        wants.update(files.names(f"{folder}/{name}.wants"))
        requires.update(files.names(f"{folder}/{name}.requires"))
    return wants, requires


def boot_order(state: State, files: Files) -> list[str]:
    """Everything that a boot starts, in order. Ties keep the order of the milestones, then of the names."""
    wanted: set[str] = set()
    todo = [
        *TARGETS,
        *(
            name
            for name, on in osfiles.services(state).items()
            if state["units"].get(name, {}).get("enabled", on)
        ),
    ]
    while todo:
        name = todo.pop()
        if name in wanted:
            continue
        wanted.add(name)
        wants, requires = dependencies(files, name)
        todo += sorted(wants | requires)
    return _sorted(state, files, wanted)


def _sorted(state: State, files: Files, wanted: set[str]) -> list[str]:
    before: dict[str, set[str]] = {name: set() for name in wanted}
    for above, below in zip(TARGETS, TARGETS[1:], strict=False):
        before[below].add(above)
    for name in wanted:
        unit = read_unit(files, name)
        for other in unit.words("Unit.After"):
            if other in wanted:
                before[name].add(other)
        for other in unit.words("Unit.Before"):
            if other in wanted:
                before[other].add(name)
        wants, requires = dependencies(files, name)
        if name in TARGETS:
            before[name] |= {
                o
                for o in (wants | requires) & wanted
                if o not in TARGETS and name not in read_unit(files, o).words("Unit.After")
            }
        early = "no" in read_unit(files, name).words("Unit.DefaultDependencies")
        if name not in TARGETS and not early:
            before[name].add(
                "basic.target"
                if not name.startswith(("systemd-networkd", "NetworkManager", "networking"))
                else "network-pre.target"
            )
        if name in NETWORK:
            before["network.target"].add(name)
    return _topological(before)


NETWORK = ("systemd-networkd.service", "NetworkManager.service", "networking.service")
"""Services that set up the network: after network-pre.target, before network.target."""


def _topological(before: dict[str, set[str]]) -> list[str]:
    """In order; a cycle is broken at the name that comes first, as systemd drops one job of it."""
    found: list[str] = []
    left = {name: set(names) for name, names in before.items()}
    while left:
        free = sorted(name for name, names in left.items() if not names & set(left)) or [min(left)]
        for name in free[:1]:
            found.append(name)
            del left[name]
    return found


def start(state: State, files: Files, name: str, run: Callable[[list[str], str], tuple[int, str]]) -> str:
    """Start one unit: "" where it went well, else why not. run: argv and unit -> exit status and last words."""
    entry = state["units"].setdefault(name, {})
    if name in TARGETS or name in osfiles.services(state):
        for other in sorted(dependencies(files, name)[1]):
            if active(state, other) != "active" and other not in TARGETS:
                entry.update(active="inactive", result="dependency")
                return f"A dependency job for {name} failed: {other}"
        entry.update(active="active", result="success")
        return ""
    unit = read_unit(files, name)
    if not unit.there:
        return f"Unit {name} not found."
    for path in unit.words("Unit.ConditionPathExists"):
        there = files.there(path.lstrip("!|"))
        if there == path.startswith("!"):
            entry.update(active="inactive", result="condition")
            return ""
    for line in [*unit.keys.get("Service.ExecStartPre", []), *unit.keys.get("Service.ExecStart", [])]:
        code, words = run(shlex.split(line.lstrip("-+!@:")), name)
        entry = state["units"].setdefault(name, {})  # the program may have changed the state
        if code and not line.startswith("-"):
            entry.update(active="failed", result=f"exit-code {code}", words=words[-800:])
            return f"Job for {name} failed because the control process exited with error code."
    kind = (unit.words("Service.Type") or ["simple"])[0]
    entry = state["units"].setdefault(name, {})
    stays = kind != "oneshot" or "yes" in unit.words("Service.RemainAfterExit")
    entry.update(active="active" if stays else "inactive", result="success", words="")
    return ""
