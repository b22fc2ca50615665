"""stress-ng, rounds, initramfs and needs of the benchmark."""

from __future__ import annotations

import shutil
import statistics
import subprocess
from pathlib import Path

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils import bench_initramfs as i
from ansible_collections.nearmetal.rack.plugins.module_utils import bench_needs as n
from ansible_collections.nearmetal.rack.plugins.module_utils import bench_rounds as r
from ansible_collections.nearmetal.rack.plugins.module_utils import bench_sides, bench_stress
from ansible_collections.nearmetal.rack.plugins.module_utils.bench_scenarios import BenchError, Side
from hypothesis import given, settings
from hypothesis import strategies as st

NEW = """\
stress-ng: info:  [9] dispatching hogs: 2 matrix
stress-ng: metrc: [9] stressor       bogo ops real time  usr time  sys time   bogo ops/s     bogo ops/s
stress-ng: metrc: [9] matrix              888      2.02      4.00      0.03       440.47         220.21
"""
OLD = "stress-ng: info:  [12] matrix      888      2.02      4.00      0.03       440.47       220.21"


@pytest.mark.parametrize("text", [NEW, OLD])
def test_metrics_of_new_and_old_versions(text: str) -> None:
    assert bench_stress.parse_metrics(text, "matrix") == (888, 2.02, 440.47)


@pytest.mark.parametrize("text", ["", "stress-ng: error: Unknown option\n", "Segmentation fault", NEW])
def test_no_figures_shows_what_was_said(text: str) -> None:
    with pytest.raises(ValueError, match="no figures for cpu: .+"):
        bench_stress.parse_metrics(text, "cpu")


def test_nothing_done_is_no_figure() -> None:
    with pytest.raises(ValueError, match="no operation"):
        bench_stress.parse_metrics(OLD.replace("888 ", "0 "), "matrix")


def test_version() -> None:
    assert bench_stress.parse_version("stress-ng, version 0.19.02 (gcc 14.2.0, x86_64)") == "0.19.02"
    assert bench_stress.parse_version("") == ""


def test_order_turns_round() -> None:
    assert [r.order("ABC", k) for k in range(3)] == [list("ABC"), list("CBA"), list("ABC")]


def test_equal_sides_are_soon_known_and_noisy_ones_not() -> None:
    steady = {"bare_metal": [100, 101, 99.5, 100.2], "vm": [98, 98.5, 98.2, 97.9]}
    noisy = {"bare_metal": [100, 150, 80, 120], "vm": [98, 60, 130, 97.9]}
    assert r.enough(steady, "bare_metal", 0.05)
    assert not r.enough(noisy, "bare_metal", 0.05)
    assert not r.enough({"bare_metal": [100], "vm": [98]}, "bare_metal", 0.05)


samples = st.lists(st.floats(1, 1000), min_size=2, max_size=8)


@settings(deadline=None, max_examples=30)
@given(samples, samples)
def test_interval_is_ordered_repeatable_and_within_the_extremes(side: list[float], base: list[float]) -> None:
    low, high = r.ratio_interval(side, base)
    assert (low, high) == r.ratio_interval(side, base)
    assert min(side) / max(base) <= low <= high <= max(side) / min(base)


def test_interval_agrees_with_scipy() -> None:
    from nearmetal.bench.stats import ratio

    side, base = [90.0, 92, 95, 91, 89, 94], [100.0, 98, 103, 101, 99, 100.5]
    found = ratio(side, base)
    assert found is not None
    assert found.value == statistics.median(side) / statistics.median(base)
    assert r.ratio_interval(side, base) == pytest.approx((found.low, found.high), abs=0.005)


def test_interval_refuses_zero() -> None:
    with pytest.raises(ValueError, match="positive"):
        r.ratio_interval([0.0, 1.0], [1.0, 1.0])


def test_ldd() -> None:
    text = """\
\tlinux-vdso.so.1 (0x00007ffd)
\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f00)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f01)
"""
    assert i.parse_ldd(text) == ["/lib/x86_64-linux-gnu/libm.so.6", "/lib64/ld-linux-x86-64.so.2"]
    with pytest.raises(ValueError, match=r"libq.so.1 is not installed"):
        i.parse_ldd("\tlibq.so.1 => not found\n")


@pytest.mark.skipif(not shutil.which("cpio"), reason="cpio is not installed")
def test_cpio_reads_the_archive(tmp_path: Path) -> None:
    entries = i.layout({"/usr/bin/stress-ng": b"x" * 5, "/lib64/ld.so": b"yy"}, "ttyS0")
    listed = subprocess.run(
        ["cpio", "-itv", "--quiet"], input=i.newc(entries), stdout=subprocess.PIPE, check=True, cwd=tmp_path
    ).stdout.decode()
    names = {line.split()[-1 if "->" not in line else -3] for line in listed.splitlines()}
    assert {"init", "dev/console", "bin/sh", "usr/bin/stress-ng", "lib64/ld.so", "usr/bin"} <= names
    assert "bin/sh -> busybox" in listed


def test_folders_come_before_what_is_in_them() -> None:
    paths = [entry.path for entry in i.layout({"/a/b/c/d": b""}, "ttyS0")]
    assert paths.index("a") < paths.index("a/b") < paths.index("a/b/c") < paths.index("a/b/c/d")


def test_the_init_is_a_shell_program(tmp_path: Path) -> None:
    script = tmp_path / "init"
    script.write_text(i.INIT.replace("@CONSOLE@", "ttyS0"))
    assert subprocess.run(["sh", "-n", script], check=False).returncode == 0


CPUINFO = "model name\t: AMD EPYC 7763\nflags\t\t: fpu svm topoext\n"


@pytest.mark.parametrize(
    ("detected", "cpuinfo", "vendor", "words"),
    [
        ("none", CPUINFO, "Dell Inc.", ""),
        ("", CPUINFO, "Dell Inc.", ""),
        ("qemu", CPUINFO, "QEMU", "TCG"),
        ("", CPUINFO.replace("AMD EPYC 7763", "QEMU TCG CPU version 2.5+"), "QEMU", "TCG"),
        ("kvm", CPUINFO, "QEMU", "virtual machine (kvm)"),
        ("", CPUINFO.replace("svm", "svm hypervisor"), "", "a hypervisor"),
        ("", CPUINFO, "VMware, Inc.", "VMware, Inc."),
    ],
)
def test_emulation(detected: str, cpuinfo: str, vendor: str, words: str) -> None:
    reason = n.emulation_reason(detected, cpuinfo, vendor)
    assert words in reason
    assert bool(reason) == bool(words)


def test_cpu_flag_is_a_whole_word() -> None:
    assert n.has_cpu_flag(CPUINFO, "topoext")
    assert not n.has_cpu_flag(CPUINFO, "topo")


def test_libvirt_versions() -> None:
    text = "Compiled against library: libvirt 11.3.0\nUsing library: libvirt 11.3.1\nRunning hypervisor: QEMU 10.0.13\n"
    assert n.parse_libvirt_versions(text) == ("11.3.1", "10.0.13")
    assert n.parse_libvirt_versions("Using library: libvirt 11.3.1\n") == ("11.3.1", "")


POOLS = [
    {"node": 0, "size_kb": 2048, "free": 10, "total": 10, "surplus": 0},
    {"node": 1, "size_kb": 2048, "free": 256, "total": 256, "surplus": 0},
    {"node": 1, "size_kb": 1048576, "free": 1, "total": 1, "surplus": 0},
]


@pytest.mark.parametrize(
    ("need", "cell", "asked", "size"),
    [
        ({1: 512}, 256, "auto", 2048),
        ({1: 1024}, 1024, "auto", 1048576),
        ({1: 513}, 171, "auto", 0),  # 171 MiB is no multiple of 2 MiB
        ({0: 100}, 100, "auto", 0),
        ({1: 512}, 256, "never", 0),
    ],
)
def test_pages(need: dict[int, int], cell: int, asked: str, size: int) -> None:
    assert n.choose_pages(need, POOLS, cell, asked) == size


def test_pages_that_must_be_there() -> None:
    with pytest.raises(BenchError, match=r"100 MiB on node 0.*10 x 2048 kB on node 0"):
        n.choose_pages({0: 100}, POOLS, 100, "always")


def test_memory() -> None:
    meminfo = "Node 1 MemTotal: 999 kB\nNode 1 MemFree: 204800 kB\nNode 1 Inactive(file): 102400 kB\n"
    assert n.parse_node_free(meminfo) == 300
    n.check_memory({1: 236}, {1: 300})
    with pytest.raises(BenchError, match="NUMA node 1 has 300 MiB free, the guests need 237"):
        n.check_memory({1: 237}, {1: 300})


def test_all_guests_are_up_at_once() -> None:
    one = Side("a", 1, "", "", (1, 1, 1), (1,), (((0,), 1),), frozenset({1}), frozenset())
    two = Side("b", 1, "", "", (2, 1, 1), (1, 2), (((0,), 0), ((1,), 1)), frozenset({1}), frozenset())
    assert n.memory_need([one, two], 128) == {0: 64, 1: 192}


def test_bare_metal_workers_are_pinned_one_by_one_in_the_guests_slice() -> None:
    load = bench_sides.Load("matrix", ("--matrix-size", "64"), 2, 3)
    call = bench_sides.worker_shell(load, [4, 6], "/var/x", in_slice=True)
    assert call[:2] == ["systemd-run", "--scope"]
    assert "--slice=machine.slice" in call
    assert "taskset -c 4 stress-ng --matrix 1 --timeout 3s" in call[-1]
    assert "taskset -c 6" in call[-1]
    assert bench_sides.worker_shell(load, [4], "/var/x", in_slice=False)[0] == "sh"


def test_machine() -> None:
    assert (
        n.choose_machine("x86_64", "<machine maxCpus='255'>q35</machine><machine canonical='x'>pc</machine>")
        == "pc"
    )
    assert n.choose_machine("x86_64", "<machine>pc-q35-10.0</machine><machine>q35</machine>") == "q35"
    assert n.choose_machine("aarch64", "<machine>pc</machine>") == "virt"
