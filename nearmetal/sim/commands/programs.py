"""Programs that nearmetal itself puts on hosts: its two shell scripts, and its Python programs.

The scripts are not run by a shell: what they would do is read from them. A Python program really runs, as a process on
this machine that is shown the simulated host in place of its own (see host.py).
"""

from __future__ import annotations

import re
from typing import Any

from ..model import boot, syscalm
from ..model.sysstatic import parse, ranges
from . import Answer, Machine, not_simulated


def run(machine: Machine, argv: list[str], stdin: str) -> Answer:
    """Sh SCRIPT..., python3 FILE..., or a file of its own."""
    program = argv[0].rpartition("/")[2]
    words = list(argv)
    if program in ("sh", "python3"):
        words = [
            word for word in argv[1:] if not (word.startswith("-") and word in ("-I", "-S", "-E", "-B", "-e"))
        ]
    if not words or not words[0].startswith("/"):
        return not_simulated(argv)
    if not machine.files.there(words[0]):
        return 127, "", f"{argv[0]}: {words[0]}: No such file or directory\n"
    if program == "sh":
        handler = SCRIPTS.get(words[0])
        text = machine.files.read_text(words[0]) or ""
        return handler(machine, text, words[1:]) if handler else not_simulated(argv)
    data = machine.files.read(words[0])
    if program != "python3" and not data.startswith(b"#!") or not is_python(data):
        return not_simulated(argv)
    return machine.run_python(words[0], data, words[1:])  # type: ignore[no-any-return]


def is_python(data: bytes) -> bool:
    """A zipapp, or a script for python."""
    first = data.split(b"\n", 1)[0]
    return (
        b"PK\x03\x04" in data[:200]
        or first.startswith(b"#!")
        and b"python" in first
        or b"import " in data[:4000]
    )


POOL = re.compile(r"^pool (\d+) (\d+) (\d+)$", re.MULTILINE)


def _hugepages(machine: Machine, text: str, words: list[str]) -> Answer:
    said = []
    for node, size, count in POOL.findall(text):
        got = boot.set_pages(machine.state, int(node), int(size), int(count))
        if got != int(count):
            said.append(f"node {node}: asked for {count} huge pages of {size} kB, got {got}\n")
    return (1 if said else 0), "", "".join(said)


def _irqs(machine: Machine, text: str, words: list[str]) -> Answer:
    state: dict[str, Any] = machine.state
    verb = words[0] if words else "steer"
    cases = {int(node): cpus for node, cpus in re.findall(r"^\s*(\d+)\) want=(\S+) ;;", text, re.MULTILINE)}
    rest = re.search(r"^\s*\*\) want=(\S+) ;;", text, re.MULTILINE)
    if rest is None or verb not in ("steer", "release"):
        return 64, "", "usage\n"
    if verb == "release":
        state["irqs"] = {"default": ranges(boot.all_cpus(state)), "affinity": {}}
        machine.files.write("/run/nearmetal/unmovable-irqs", "")
        return 0, "", ""
    mask = re.search(r"^steer\) mask=(\S+)", text, re.MULTILINE)
    state["irqs"]["default"] = ranges(_from_mask(mask[1])) if mask else rest[1]
    stuck = ""
    for number, name, node in syscalm.irq_table(state):
        if not set_irq(state, number, str(cases.get(node if node is not None else -1, rest[1]))):
            stuck += f"{number} {name}\n"
    machine.files.write("/run/nearmetal/unmovable-irqs", stuck)
    return 0, "", ""


SCRIPTS = {"/etc/nearmetal/hugepages": _hugepages, "/etc/nearmetal/irq-affinity": _irqs}


def _from_mask(text: str) -> list[int]:
    value = int(text.replace(",", ""), 16)
    return [at for at in range(value.bit_length()) if value >> at & 1]


def set_irq(state: dict[str, Any], number: int, cpus: str) -> bool:
    """Steer an interrupt; False where the kernel does not let it go (the timer-like ones: per CPU)."""
    if number == 16 and "irq-stuck" in state["faults"]:
        return False
    state["irqs"]["affinity"][str(number)] = ranges(parse(cpus))
    return True
