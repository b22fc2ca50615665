"""The boot-time script runs under a real shell, against a /proc/irq of files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils import irq


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Interrupts 10 (node 0), 11 (node 1), 12 (no node), 13 (refuses), 14 (not in use)."""
    interrupts = ((10, "0", "eth0"), (11, "1", "eth1"), (12, "-1", "usb"), (13, "0", "nvme0q1"), (14, "0", ""))
    for number, node, name in interrupts:
        folder = tmp_path / "proc/irq" / str(number)
        folder.mkdir(parents=True)
        (folder / "node").write_text(node + "\n")
        (folder / "smp_affinity_list").write_text("0-7\n")
        actions = tmp_path / "sys/kernel/irq" / str(number)
        actions.mkdir(parents=True)
        (actions / "actions").write_text(name + "\n")
    (tmp_path / "proc/irq/13/smp_affinity_list").unlink()
    (tmp_path / "proc/irq/13/smp_affinity_list").mkdir()  # writing fails, as for a managed interrupt
    (tmp_path / "proc/irq/default_smp_affinity").write_text("ff\n")
    (tmp_path / "sys/devices/system/cpu").mkdir(parents=True)
    (tmp_path / "sys/devices/system/cpu/online").write_text("0-6\n")
    return tmp_path


def run(machine: Path, verb: str) -> subprocess.CompletedProcess[str]:
    nodes = {0: frozenset(range(4)), 1: frozenset(range(4, 8))}
    files = irq.steer_files(frozenset({0, 1, 4}), nodes, frozenset(range(8)))
    script = files[irq.SCRIPT]
    for top in ("/proc/", "/sys/", "/run/"):
        script = script.replace(top, f"{machine}{top}")
    path = machine / "script"
    path.write_text(script)
    return subprocess.run(["sh", str(path), verb], capture_output=True, text=True, check=False)


def affinity(machine: Path) -> list[str]:
    return [(machine / f"proc/irq/{n}/smp_affinity_list").read_text().strip() for n in (10, 11, 12, 14)]


def test_steer_puts_interrupts_near_to_their_device(machine: Path) -> None:
    done = run(machine, "steer")
    assert (done.returncode, done.stderr) == (0, "")
    assert affinity(machine) == ["0-1", "4", "0-1,4", "0-7"]
    assert (machine / "proc/irq/default_smp_affinity").read_text() == "13\n"
    assert (machine / "run/nearmetal/unmovable-irqs").read_text() == "13 nvme0q1\n"


def test_release_lets_them_go_anywhere(machine: Path) -> None:
    run(machine, "steer")
    assert run(machine, "release").returncode == 0
    assert affinity(machine) == ["0-6", "0-6", "0-6", "0-7"]
    assert (machine / "proc/irq/default_smp_affinity").read_text() == "ff\n"


def test_other_words_are_refused(machine: Path) -> None:
    done = run(machine, "stop")
    assert done.returncode == 64
    assert "steer|release" in done.stderr
    assert affinity(machine) == ["0-7"] * 4


def test_irqbalance_is_told_in_both_of_its_languages() -> None:
    files = irq.balance_files(frozenset(range(2, 40)))
    assert "IRQBALANCE_BANNED_CPULIST=2-39\n" in files[irq.BALANCE_ENV]
    assert "IRQBALANCE_BANNED_CPUS=ff,fffffffc\n" in files[irq.BALANCE_ENV]
    assert "EnvironmentFile=" + irq.BALANCE_ENV in files[irq.BALANCE_DROPIN]
