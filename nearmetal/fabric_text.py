"""The fabric of a host as a tree for the terminal, at most 100 columns wide. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nearmetal.fabric_scene import Card, Faults, Group, Joint, Port, Scene

WIDTH = 100


@dataclass(frozen=True)
class Branch:
    """A line made of parts, and what hangs on it."""

    parts: tuple[str, ...]
    below: tuple[Branch, ...] = ()


def tree(scene: Scene, width: int = WIDTH) -> list[str]:
    """Lines of the tree, each at most `width` characters."""
    branches = [
        Branch((node.title,), tuple(b for g in node.groups for b in _group(g))) for node in scene.nodes
    ]
    if scene.joints:
        branches.append(Branch(("across cards",), tuple(_joint(joint, True) for joint in scene.joints)))
    branches += [Branch((note,)) for note in scene.notes]
    for number, one in enumerate(scene.findings, 1):
        if one["severity"] != "note":
            branches.append(Branch((f"✗ {number} {one['severity']}: {one['title']}",)))
    return list(_lines(branches, "", width, top=True))


def _lines(branches: Sequence[Branch], indent: str, width: int, top: bool = False) -> Iterator[str]:
    for branch in branches:
        last = branch is branches[-1]
        first, rest = ("", "") if top else (("└─ ", "   ") if last else ("├─ ", "│  "))
        hang = indent + rest + ("│  " if branch.below else "   ")
        for number, line in enumerate(_fit(branch.parts, width - len(indent) - 6)):
            yield (indent + first if number == 0 else hang) + line
        yield from _lines(branch.below, indent + rest, width)


def _fit(parts: Sequence[str], width: int) -> list[str]:
    """Parts joined by commas, broken between them; a part that is too long is cut."""
    out: list[str] = []
    for part in filter(None, parts):
        one = part if len(part) <= width else part[: max(width - 1, 1)] + "…"
        if out and len(out[-1]) + 2 + len(one) <= width:
            out[-1] += ", " + one
        else:
            out.append(one)
    return out


def _group(group: Group) -> Iterator[Branch]:
    inside = [Branch((f"GPU {gpu.address}", *gpu.parts, gpu.near)) for gpu in group.gpus] + [
        _card(c) for c in group.cards
    ]
    if group.title:
        yield Branch((group.title,), tuple(inside))
    else:
        yield from inside


def _card(card: Card) -> Branch:
    """Its ports, and their VFs: once for all ports where they are alike."""
    each = [_vfs(port) for port in card.ports]
    same = len(each) > 1 and bool(each[0]) and all(vfs == each[0] for vfs in each)
    ports = [_port(port, () if same else vfs) for port, vfs in zip(card.ports, each, strict=True)]
    shared = (Branch(("on each port",), each[0]),) if same else ()
    return Branch((card.title,), (*ports, *map(_joint, card.joints), *shared))


def _vfs(port: Port) -> tuple[Branch, ...]:
    return tuple(Branch((vf.label, *vf.parts, marked(vf.faults))) for vf in port.vfs)


def _port(port: Port, vfs: tuple[Branch, ...]) -> Branch:
    bad = marked(port.faults)
    return Branch((f"{port.name} {port.address}", *port.link, " ".join(port.switch), *port.size, bad), vfs)


def _joint(joint: Joint, members: bool = False) -> Branch:
    lag = joint.lag and {"ok": "✓ ", "bad": "✗ ", "off": ""}[joint.lag[0]] + joint.lag[1]
    names = " ".join(joint.members[:8]) + (" ..." if len(joint.members) > 8 else "")
    over = f"over {names or 'nothing'}" if members else ""
    return Branch((joint.name, *joint.parts, lag or "", over, marked(joint.faults)))


def marked(faults: Faults) -> str:
    """What says without colour that something is wrong: "✗ fault 1", "✗ faults 1, 4"; "" for nothing."""
    numbers = ", ".join(str(number) for number, _ in faults)
    return f"✗ fault{'s' if len(faults) > 1 else ''} {numbers}" if faults else ""
