"""A state document as an operator reads it: one table that fits 100 columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from nearmetal.fabric_scene import scene
from nearmetal.fabric_text import tree

State = Mapping[str, Any]
Row = tuple[str, str]

GIB = 1 << 30
NETWORK, DISPLAY, ACCELERATOR = "0x02", "0x03", "0x12"


def size(kb: int) -> str:
    """A page size: 2M, 1G, 64K."""
    if kb % 1048576 == 0:
        return f"{kb // 1048576}G"
    return f"{kb // 1024}M" if kb % 1024 == 0 else f"{kb}K"


def gib(value: int | None) -> str:
    """Bytes as GiB."""
    return "memory not known" if value is None else f"{value / GIB:.1f} GiB"


def cpus(text: str) -> str:
    """A cpulist; interleaved CPUs in a form that does not fill the screen: 0-78 by 2."""
    numbers = text.split(",")
    if len(numbers) > 4 and all(number.isdigit() for number in numbers):
        values = [int(number) for number in numbers]
        steps = {two - one for one, two in zip(values, values[1:], strict=False)}
        if len(steps) == 1:
            return f"{values[0]}-{values[-1]} by {steps.pop()}"
    return text


def show_state(console: Console, name: str, state: State) -> None:
    """Print the table, the fabric as a tree, then what could not be read."""
    table = Table(title=escape(name), title_justify="left", title_style="bold", show_header=False, width=min(console.width, 100))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in rows(state):
        table.add_row(label, escape(text))
    console.print(table)
    if (fabric := scene(state)) is not None:
        console.print(f"[bold]fabric[/]: {escape(fabric.summary)}")
        for line in tree(fabric, min(console.width, 100)):
            console.print(Text(line), no_wrap=True)
    if state["unread"]:
        sections = ", ".join(sorted({note["section"] for note in state["unread"]}))
        console.print(f"[yellow]not read:[/] {escape(sections)} (reasons: --json)")


def rows(state: State) -> Iterator[Row]:
    """Label and text, only of what is there."""
    cpu, kernel = state["cpu"], state["kernel"]
    if state["os"]["name"]:
        yield "system", f"{state['os']['name']}, kernel {kernel['release'] or 'not known'}"
    elif kernel["release"]:
        yield "kernel", kernel["release"]
    yield "processor", " ".join(filter(None, (cpu["model"] or cpu["vendor"] or "not known", cpu["arch"])))
    yield "topology", _topology(cpu)
    yield from _cpu_sets(cpu)
    yield from _nodes(state)
    yield "huge pages", _hugepages(state["memory"])
    yield "IOMMU", _iommu(state)
    for function in state["pci"]:
        if function["class"][:4] in (NETWORK, DISPLAY, ACCELERATOR) and not function["physfn"]:
            yield f"PCI {function['address']}", _function(function, len(cpu["nodes"]) > 1)
    if kernel["cmdline"] is not None:
        yield "arguments", kernel["cmdline"]
    configured = state["boot"]["configured"]
    if configured is not None:
        yield "configured", f"{configured}  ({state['boot']['loader']})"


def _topology(cpu: State) -> str:
    cores = len(cpu["cores"])
    per = cpu["threads_per_core"]
    smt = f"{per} threads a core" if per > 1 else "no SMT"
    if per == 1 and cpu["smt"] in ("off", "forceoff"):
        smt = f"SMT {cpu['smt']}"
    kinds = [core["kind"] for core in cpu["cores"]]
    hybrid = ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("performance", "efficiency") if kind in kinds)
    text = f"{cpu['sockets']} socket(s), {len(cpu['nodes'])} NUMA node(s), {cores} core(s), {smt}"
    return f"{text} ({hybrid})" if hybrid else text


def _cpu_sets(cpu: State) -> Iterator[Row]:
    yield "online", cpu["online"] + (f"   offline {cpu['offline']}" if cpu["offline"] else "")
    if cpu["isolated"]:
        yield "isolated", cpu["isolated"]
    if cpu["nohz_full"]:
        yield "nohz_full", cpu["nohz_full"]


def _nodes(state: State) -> Iterator[Row]:
    for at, node in enumerate(state["cpu"]["nodes"]):
        kind = {"gpu": "GPU memory", "memory": "no CPUs"}.get(node["kind"], "")
        who = f"CPUs {cpus(node['cpus'])}" if node["cpus"] else kind
        others = [d for place, d in enumerate(node["distances"]) if place != at]
        far = f", distance {min(others)}" + (f" to {max(others)}" if max(others) > min(others) else "") if others else ""
        yield f"node {node['id']}", f"{who}, {gib(node['memory_bytes'])}{far}"


def _hugepages(memory: State) -> str:
    used = [p for p in memory["hugepages"] if p["total"]]
    default = memory["hugepage_default_kb"]
    tail = f" (default size {size(default)})" if default else ""
    if not used:
        return ("none" if memory["hugepages"] else "not known") + tail
    return ", ".join(f"node {p['node']}: {p['total']} x {size(p['size_kb'])} ({p['free']} free)" for p in used) + tail


def _iommu(state: State) -> str:
    iommu = state["iommu"]
    if any(note["section"] == "iommu" for note in state["unread"]):
        return "not known"
    types = ", ".join(f"{count} {kind}" for kind, count in sorted(iommu["types"].items()))
    if not iommu["groups"] and not iommu["units"]:
        return "off"
    units = ", ".join(iommu["units"]) or "no unit in use"
    return f"{iommu['groups']} group(s)" + (f" ({types})" if types else "") + f"; {units}"


def _function(function: State, several_nodes: bool) -> str:
    parts = [f"{function['vendor'][2:]}:{function['device'][2:]}" if function["vendor"] else "identity not known"]
    parts += function["netdevs"]
    if function["driver"]:
        parts.append(function["driver"])
    if several_nodes:
        node = function["numa_node"]
        parts.append("NUMA node not known" if node is None else f"node {node}")
    if function["sriov_total"]:
        parts.append(f"VFs {function['sriov_vfs']} of {function['sriov_total']}")
    if function["iommu_group"] is not None:
        parts.append(f"group {function['iommu_group']}")
    return ", ".join(parts)
