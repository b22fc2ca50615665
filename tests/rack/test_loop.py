"""The main job on the virtual rack, and what may go wrong in it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Rack

NODES = ("node1", "node2")
WANTED = "intel_iommu=on"
MODULES = {"nearmetal.rack.kernel_cmdline", "nearmetal.rack.hugepages", "nearmetal.rack.cpu_isolation"}


def events(rack: Rack, run: str) -> list[dict[str, object]]:
    path = Path(rack.env["NEARMETAL_STATE_DIR"]) / "runs" / run / "journal.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def runs(rack: Rack) -> list[dict[str, Any]]:
    return list(json.loads(rack.run("runs", "--json").out))


def threads(rack: Rack, node: str) -> int:
    """Threads of a core, as `nearmetal inspect` finds them."""
    done = rack.run("inspect", node, "-i", rack.inventory, "--json")
    assert done.code == 0, done.text
    return int(json.loads(done.out)["cpu"]["threads_per_core"])


def wait_for(rack: Rack, process: subprocess.Popen[str], event: str, host: str, seconds: float = 300) -> str:
    """Wait until the journal of this process's run has the event; returns the run's id.

    Looks at the files: asking the command line again and again would take a processor from the nodes.
    """
    end = time.monotonic() + seconds
    folder = Path(rack.env["NEARMETAL_STATE_DIR"]) / "runs"
    while time.monotonic() < end and process.poll() is None:
        for run in [p.parent for p in folder.glob("*/run.json") if json.loads(p.read_text())["pid"] == process.pid]:
            if any(e["event"] == event and e.get("host") == host for e in events(rack, run.name)):
                return run.name
        time.sleep(0.5)
    pytest.fail(f"no {event} of {host}: {process.communicate() if process.poll() is not None else 'still running'}")


def test_converges_with_one_reboot_and_then_changes_nothing(rack: Rack) -> None:
    plan = rack.plan()
    assert plan["summary"]["reboots"] == 2
    assert plan["summary"]["changed_hosts"] == 2
    (waits,) = {s["reason"] for s in plan["steps"] if s["capability"] == "reboot"}
    assert "kernel_args/cmdline" in waits and "bios/smt" in waits, "BIOS and kernel share the reboot"
    assert {node: threads(rack, node) for node in NODES} == dict.fromkeys(NODES, 1)
    before = {n: rack.ssh(n, "cat /proc/sys/kernel/random/boot_id") for n in NODES}

    done = rack.apply()
    assert done.code == 0, done.text
    run = runs(rack)[0]["id"]
    reboots = [e["host"] for e in events(rack, run) if e["event"] == "reboot_done"]
    assert sorted(reboots) == ["node1", "node2"]

    for node in NODES:
        assert rack.ssh(node, "cat /proc/sys/kernel/random/boot_id") != before[node]
        assert threads(rack, node) == 2, "the BIOS has SMT on"
        assert WANTED in rack.ssh(node, "cat /proc/cmdline").split()
        pages = "cat /sys/devices/system/node/node{0,1}/hugepages/hugepages-2048kB/nr_hugepages"
        assert rack.ssh(node, f"bash -c '{pages}'").split() == ["192", "160"]
        assert rack.ssh(node, "cat /sys/fs/cgroup/system.slice/cpuset.cpus.effective") == "0-1,4-5", (
            "decided again with the CPUs that SMT brought"
        )
        assert rack.ssh(node, "systemctl start user.slice; cat /sys/fs/cgroup/user.slice/cpuset.cpus.effective") == "0-1,4-5"
        assert "DMAR" in rack.ssh(node, "ls /sys/class/iommu; dmesg | grep -i 'DMAR: IOMMU enabled'")

    again = rack.apply()
    assert again.code == 0, again.text
    assert "Nothing to do" in again.out
    assert "0 modules run" in again.out
    assert [r["status"] for r in runs(rack)][:2] == ["ok", "ok"]
    assert not [e for e in events(rack, runs(rack)[0]["id"]) if e["event"] == "task_done"], "no module may have run"
    assert rack.run("drift", "-i", rack.inventory).code == 0

    # Drift made by hand is found, named, and taken back without a reboot.
    rack.ssh("node1", "echo 7 > /sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages")
    drifted = rack.run("drift", "-i", rack.inventory, "--json")
    assert drifted.code == 2
    assert {s["host"] for s in json.loads(drifted.out)["steps"]} == {"node1"}
    assert rack.apply().code == 0
    assert rack.ssh("node1", "cat /sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages") == "192"


@pytest.mark.usefixtures("node1_alone")
def test_controller_killed_in_the_middle_then_resumed(rack: Rack) -> None:
    """With CPUs isolated by the kernel: SMT comes first, and a second reboot that was announced."""
    words = ("-l", "node1", "-e", "cpu_isolation_mode=kernel")
    process = rack.start("apply", "-i", rack.inventory, "--yes", *words)
    run = wait_for(rack, process, "step_done", "node1")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not orphans_of(run, 60), "the playbook went on without its controller"
    assert [r["status"] for r in runs(rack) if r["id"] == run] == ["died"]

    plan = rack.plan(*words)
    assert plan["summary"]["reboots"] == 2
    assert "second-reboot" in {s["key"] for s in plan["steps"]}
    done = rack.apply(*words)
    assert done.code == 0, done.text
    assert "was cut off" in done.out
    assert [e["event"] for e in events(rack, runs(rack)[0]["id"])].count("reboot_done") == 2
    assert WANTED in rack.ssh("node1", "cat /proc/cmdline").split()
    assert rack.ssh("node1", "cat /sys/devices/system/cpu/isolated") == "2-3,6-7"
    assert rack.run("drift", "-i", rack.inventory, *words).code == 0
    # Nothing of the image's own arguments was lost or doubled on the way.
    words = rack.ssh("node1", "cat /proc/cmdline").split()
    assert words.count(WANTED) == 1
    assert "tsc=reliable" in words


def orphans_of(run: str, seconds: float) -> str:
    """Processes that still belong to a run after so many seconds: a module at work may end first."""
    end = time.monotonic() + seconds
    while True:
        found = subprocess.run(["pgrep", "-fa", run], capture_output=True, text=True, check=False).stdout
        if not found or time.monotonic() > end:
            return found
        time.sleep(1)


@pytest.mark.usefixtures("node1_alone")
def test_node_that_does_not_come_back(rack: Rack) -> None:
    process = rack.start("apply", "-i", rack.inventory, "--yes", "-l", "node1", "-e", "nearmetal_reboot_timeout=30")
    wait_for(rack, process, "reboot_start", "node1")
    # Also the connection that Ansible keeps open is still there: nothing but silence ends it.
    with paused_when_down(rack, "node1"):
        out, err = process.communicate(timeout=400)
        assert process.returncode == 1, out + err
        assert "node1" in out
        assert "reboot" in (out + err).lower()
    assert runs(rack)[0]["status"] == "failed"
    wait_until_up(rack, "node1")
    done = rack.apply("-l", "node1")
    assert done.code == 0, done.text
    assert WANTED in rack.ssh("node1", "cat /proc/cmdline").split()


@contextlib.contextmanager
def paused_when_down(rack: Rack, node: str) -> Iterator[None]:
    """Stop the node's processor as soon as its BMC starts it again, as a machine that hangs in its firmware."""
    before = pid = rack.pid(node)
    end = time.monotonic() + 120
    while time.monotonic() < end and pid in (before, None):
        time.sleep(0.5)
        pid = rack.pid(node)
    assert pid not in (before, None), "the BMC did not start it again"
    time.sleep(2)  # the BMC asks its QEMU whether it runs, and would end one that does not answer
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def wait_until_up(rack: Rack, node: str) -> None:
    end = time.monotonic() + 240
    while time.monotonic() < end:
        if rack.answers(node, 60):
            return
        time.sleep(2)
    pytest.fail(f"{node} is not back")


@pytest.mark.usefixtures("node1_alone")
def test_boot_loader_that_ignores_the_argument(rack: Rack) -> None:
    """custom.cfg, which grub.cfg sources last, overrules the default entry with the old arguments."""
    rack.ssh("node1", OLD_ENTRY)
    done = rack.apply("-l", "node1")
    assert done.code == 1, done.text
    run = runs(rack)[0]["id"]
    assert [e["event"] for e in events(rack, run)].count("reboot_done") <= 1
    assert WANTED in done.text
    booted = rack.ssh("node1", "cat /proc/sys/kernel/random/boot_id")

    again = rack.apply("-l", "node1")
    assert again.code == 1, again.text
    assert rack.ssh("node1", "cat /proc/sys/kernel/random/boot_id") == booted, "rebooted again for the same reason"


OLD_ENTRY = r"""
set -e
line=$(grep -m1 -E '^\s*linux\s' /boot/grub/grub.cfg)
init=$(grep -m1 -E '^\s*initrd\s' /boot/grub/grub.cfg)
search=$(grep -m1 -E '^\s*search .*--set=root' /boot/grub/grub.cfg || true)
cat > /boot/grub/custom.cfg <<EOF
menuentry old --id old {
$search
$line
$init
}
set default=old
EOF
"""


@pytest.mark.usefixtures("node1_alone")
def test_disk_full_while_writing_the_boot_configuration(rack: Rack) -> None:
    old = rack.ssh("node1", "sha256sum /etc/default/grub /boot/grub/grub.cfg")
    rack.ssh("node1", FILL)
    done = rack.apply("-l", "node1")
    assert done.code == 1, done.text
    assert "No space left" in done.text
    rack.ssh("node1", "rm -f /fill*")
    assert rack.ssh("node1", "sha256sum /etc/default/grub /boot/grub/grub.cfg") == old
    done = rack.apply("-l", "node1", "-e", "nearmetal_reboot_ok=false")
    assert done.code == 0, done.text
    assert WANTED in rack.ssh("node1", "grep -m1 vmlinuz /boot/grub/grub.cfg").split()


FILL = r"""
set -e
free=$(stat -f -c '%f*%S' /)
fallocate -l $((free - 65536)) /fill1 || true
head -c 1G /dev/zero > /fill2 2>/dev/null || true
sync
! head -c 8192 /dev/zero > /fill3 2>/dev/null
rm -f /fill3
"""


def test_second_apply_is_refused(rack: Rack) -> None:
    first = rack.start("apply", "-i", rack.inventory, "--yes", "-l", "node1")
    run = wait_for(rack, first, "task_start", "node1")
    second = rack.apply("-l", "node2")
    assert second.code == 1
    assert f"pid {first.pid}" in second.err
    assert run in second.err
    first.send_signal(signal.SIGINT)
    out, err = first.communicate(timeout=300)
    assert first.returncode == 1, out + err
    assert "To go on" in out
    assert runs(rack)[0]["status"] == "interrupted"
