"""Where everything of the fabric's drawing stands: boxes in boxes, for a given width. Pure.

A box has lines of text and rows of boxes. Boxes of a row are equally wide and high. Text is broken between its parts
where a line is full, and cut with an ellipsis where one word alone is too long; the whole text then stands in the box's
title.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from nearmetal.fabric_scene import Card, Faults, Gpu, Group, Joint, NodeBox, Port, Scene, VfGroup
from nearmetal.fabric_text import marked

FONT = 11.5
LINE = 15.0
PAD, GAP, ROW_GAP = 7.0, 8.0, 10.0
CARD_WIDE, NODE_WIDE, PORT_WIDE, VF_WIDE = 250.0, 290.0, 112.0, 112.0
"""Least widths in px; less, and the boxes go below each other."""

_NARROW = {**dict.fromkeys("ijlI.,:;'|! ", 0.36), **dict.fromkeys("ftr()[]/-", 0.44)}
_BROAD = {**dict.fromkeys("mwMW%@", 0.99), **dict.fromkeys("ABCDEFGHJKLNOPQRSTUVXYZ+=<>", 0.8)}
_WIDTHS = {**_NARROW, **_BROAD, "…": 1.0, "✓": 0.9, "✗": 0.9, "·": 0.36}


def text_width(text: str, strong: bool = False) -> float:
    """An upper bound of a line's width in px: that of a broad typeface (DejaVu Sans); of other scripts a full square."""
    width = sum(_WIDTHS.get(char) or (0.65 if ord(char) < 0x250 else 1.1) for char in text) * FONT
    return width * 1.13 if strong else width


@dataclass(frozen=True)
class Text:
    """One line as it is written. cls: "" or "head", "dim", "ok", "bad"."""

    text: str
    cls: str = ""


@dataclass(frozen=True)
class Words:
    """Text before it is broken into lines."""

    parts: tuple[str, ...]
    cls: str = ""

    def lines(self, width: float) -> list[Text]:
        """Broken at the parts, at most `width` px wide."""
        strong = self.cls == "head"
        out: list[str] = []
        for part in filter(None, self.parts):
            longer = f"{out[-1]} · {part}" if out else part
            if out and text_width(longer, strong) <= width:
                out[-1] = longer
            else:
                out += _broken(part, width, strong)
        return [Text(line, self.cls) for line in out]


def _broken(part: str, width: float, strong: bool) -> list[str]:
    """One part in as many lines as its words need."""
    out: list[str] = []
    for word in part.split(" "):
        if out and text_width(f"{out[-1]} {word}", strong) <= width:
            out[-1] += " " + word
        else:
            out.append(cut(word, width, strong))
    return out


def cut(text: str, width: float, strong: bool) -> str:
    """As much of a text as fits."""
    if text_width(text, strong) <= width:
        return text
    while text and text_width(text + "…", strong) > width:
        text = text[:-1]
    return text + "…" if text else ""


def indent(cls: str) -> float:
    """Room for the mark at the left edge of a VF."""
    return 4.0 if cls.startswith("vf ") else 0.0


@dataclass(frozen=True)
class Item:
    """A box before it has a place. cls: its kind and tone, for the style sheet. linked: rows are joined by lines."""

    cls: str
    words: tuple[Words, ...]
    title: str = ""
    rows: tuple[tuple[Item, ...], ...] = ()
    linked: bool = False

    @property
    def pad(self) -> float:
        """Space within its edges; a box that only holds others in place has none."""
        return 0.0 if self.cls == "vfs" and self.rows else PAD

    def lines(self, width: float) -> tuple[Text, ...]:
        """Its text, broken into lines, where the box is `width` px wide."""
        inside = width - 2 * self.pad - indent(self.cls)
        return tuple(line for words in self.words for line in words.lines(inside))


@dataclass(frozen=True)
class Box:
    """A box at its place, in px. depth: 0 is outermost."""

    x: float
    y: float
    w: float
    h: float
    depth: int
    cls: str
    title: str
    texts: tuple[Text, ...]

    def text_at(self, index: int) -> tuple[float, float]:
        """Left end and base line of a line of text."""
        return self.x + PAD + indent(self.cls), self.y + PAD + LINE * index + FONT * 0.86


@dataclass
class Layout:
    """The whole drawing. links: (x, top, bottom) of the lines between rows."""

    width: float
    height: float = 0.0
    boxes: list[Box] = field(default_factory=list)
    links: list[tuple[float, float, float]] = field(default_factory=list)


def layout(scene: Scene, width: float) -> Layout:
    """The drawing of a scene, `width` px wide."""
    out = Layout(width)
    y = 0.0
    for row in _top_rows(scene, width):
        y = _place_row(out, row, 0.0, y, width, 0) + GAP
    out.height = max(y - GAP, 1.0)
    return out


def _inner(width: float) -> float:
    return width - 2 * PAD


def _columns(items: Sequence[Item], width: float, least: float) -> tuple[tuple[Item, ...], ...]:
    """Items in rows of as many columns as fit, never wider apart than needed."""
    most = max(1, int((width + GAP) // (least + GAP)))
    rows = -(-len(items) // most)
    each = -(-len(items) // rows) if rows else 1
    return tuple(tuple(items[i : i + each]) for i in range(0, len(items), each))


def _share(width: float, count: int) -> float:
    return (width - GAP * (count - 1)) / count


def _height(item: Item, width: float) -> float:
    inside = width - 2 * item.pad
    lines = len(item.lines(width))
    height = 2 * item.pad + lines * LINE
    for row in item.rows:
        height += ROW_GAP + max(_height(child, _share(inside, len(row))) for child in row)
    return height - (ROW_GAP - 4 if item.rows and lines else ROW_GAP if item.rows else 0)


def _place_row(out: Layout, row: Sequence[Item], x: float, y: float, width: float, depth: int) -> float:
    """Place boxes side by side; the y below them."""
    each = _share(width, len(row))
    height = max(_height(item, each) for item in row)
    for index, item in enumerate(row):
        _place(out, item, x + index * (each + GAP), y, each, height, depth)
    return y + height


def _place(out: Layout, item: Item, x: float, y: float, width: float, height: float, depth: int) -> None:
    pad, inside = item.pad, width - 2 * item.pad
    texts = item.lines(width)
    out.boxes.append(Box(x, y, width, height, depth, item.cls, item.title, texts))
    at = y + pad + LINE * len(texts) + (4 if texts and item.rows else 0)
    for index, row in enumerate(item.rows):
        if index and item.linked:
            wider = max(item.rows[index - 1], row, key=len)
            each = _share(inside, len(wider))
            out.links += [
                (x + pad + n * (each + GAP) + each / 2, at - ROW_GAP, at) for n in range(len(wider))
            ]
        at = _place_row(out, row, x + pad, at, inside, depth + 1) + ROW_GAP


def _top_rows(scene: Scene, width: float) -> Iterator[tuple[Item, ...]]:
    rows = _columns([Item("", ()) for _ in scene.nodes], width, NODE_WIDE)
    share = _share(width, len(rows[0])) if rows else width
    items = [_node(node, _inner(share)) for node in scene.nodes]
    yield from _columns(items, width, NODE_WIDE)
    if scene.joints:
        joints = [_joint(joint, members=True) for joint in scene.joints]
        rows = _columns(joints, _inner(width), NODE_WIDE)
        yield (
            Item(
                "node",
                (Words(("Across cards",), "head"),),
                "Bonds and bridges over ports of several cards",
                rows,
            ),
        )


def _node(node: NodeBox, width: float) -> Item:
    items = [_group(group, width) for group in node.groups]
    head, _, rest = node.title.partition(" · ")
    return Item(
        "node", (Words((head,), "head"), Words((rest,), "dim")), node.title, _columns(items, width, CARD_WIDE)
    )


def _group(group: Group, width: float) -> Item:
    """One switch with what is below it; a single card or GPU stands for itself."""
    gpus = [_gpu(gpu) for gpu in group.gpus]
    rows = _columns([Item("", ())] * max(1, len(group.cards) + len(group.gpus)), width, CARD_WIDE)
    inside = _inner(_share(width, len(rows[0])))
    if not group.title:
        return (gpus + [_card(card, inside) for card in group.cards])[0]
    cards = [_card(card, inside) for card in group.cards]
    return Item("group", (Words((group.title,), "dim"),), group.title,
                (*_columns(gpus, inside, VF_WIDE), *((card,) for card in cards)))  # fmt: skip


def _gpu(gpu: Gpu) -> Item:
    title = f"GPU {gpu.address}: {', '.join(gpu.parts)}; {gpu.near}"
    words = (Words((f"GPU {gpu.address}",), "head"), Words(gpu.parts), Words((gpu.near,), "dim"))
    return Item(_toned("gpu", gpu.faults), words + _marks(gpu.faults), _told(title, gpu.faults))


def _card(card: Card, width: float) -> Item:
    ports = [_port(port) for port in card.ports]
    rows = [*_columns(ports, _inner(width), PORT_WIDE), *((_joint(joint),) for joint in card.joints)]
    groups = [port.vfs for port in card.ports]
    if len(groups) > 1 and groups[0] and all(_alike(one, groups[0]) for one in groups):
        each = tuple((_vf_of_each(one, card.ports),) for one in zip(*groups, strict=True))
        rows.append((Item("vfs", (), "VFs of each port", each),))
    elif any(groups):
        columns = [_vfs(port) for port in card.ports]
        rows += [tuple(columns)] if len(rows[0]) == len(ports) else [(one,) for one in columns]
    return Item("card", (Words(tuple(card.title.split(" · ")), "dim"),), card.title, tuple(rows), linked=True)


def _port(port: Port) -> Item:
    words = (
        Words((port.name,), "head"),
        Words((port.address,)),
        Words(port.link),
        Words(port.switch),
        Words(port.size),
    )
    told = f"{port.name} {port.address}: {', '.join((*port.link, *port.switch, *port.size))}"
    return Item(_toned("port", port.faults), words + _marks(port.faults), _told(told, port.faults))


def _joint(joint: Joint, members: bool = False) -> Item:
    words = [Words((joint.name, joint.parts[0]), "head"), Words(joint.parts[1:])]
    if joint.lag:
        tone, said = joint.lag
        words.append(
            Words(({"ok": "✓ ", "bad": "✗ ", "off": ""}[tone] + said,), "" if tone == "off" else tone)
        )
    if members:
        words.append(Words(("over " + (joint.members[0] if joint.members else "nothing"), *joint.members[1:]), "dim"))
    told = f"{joint.name}: {', '.join(joint.parts)}; members {', '.join(joint.members)}"
    return Item(
        _toned(joint.kind, joint.faults), tuple(words) + _marks(joint.faults), _told(told, joint.faults)
    )


def _vfs(port: Port) -> Item:
    rows = tuple((_vf(group, port),) for group in port.vfs)
    return Item("vfs", () if rows else (Words(("no VFs",), "dim"),), f"VFs of {port.name}", rows)


def _vf(group: VfGroup, port: Port) -> Item:
    told = f"{group.label} of {port.name}: {', '.join(group.parts)}; {', '.join(group.addresses)}"
    words = (Words((group.label,), "head"), Words(group.parts))
    return Item(
        _toned(f"vf {group.kind}", group.faults), words + _marks(group.faults), _told(told, group.faults)
    )


def _alike(some: tuple[VfGroup, ...], others: tuple[VfGroup, ...]) -> bool:
    """Whether the VFs of two ports can be drawn once."""
    return [(g.label, g.kind, g.parts, g.faults) for g in some] == [
        (g.label, g.kind, g.parts, g.faults) for g in others
    ]


def _vf_of_each(groups: tuple[VfGroup, ...], ports: tuple[Port, ...]) -> Item:
    """One box for the same VFs of every port."""
    one = groups[0]
    told = "\n".join(
        f"{g.label} of {p.name}: {', '.join(g.addresses)}" for g, p in zip(groups, ports, strict=True)
    )
    words = (Words((f"{one.label} of each port",), "head"), Words(one.parts))
    return Item(_toned(f"vf {one.kind}", one.faults), words + _marks(one.faults), _told(told, one.faults))


def _marks(faults: Faults) -> tuple[Words, ...]:
    return (Words((marked(faults),), "bad"),) if faults else ()


def _toned(cls: str, faults: Faults) -> str:
    return f"{cls} faulty" if faults else cls


def _told(text: str, faults: Faults) -> str:
    return text + "".join(f"\n✗ {number} {title}" for number, title in faults)
