"""nearmetal partition: output, exit codes, messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from nearmetal.commands import partition
from nearmetal.errors import BAD_INTENT, NearmetalError


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Two nodes of two cores with two threads each; a NIC on node 1."""
    sys = tmp_path / "sys/devices/system"
    files = {
        sys / "cpu/online": "0-7", sys / "node/online": "0-1", tmp_path / "proc/cmdline": "quiet",
        sys / "node/node0/cpulist": "0-1,4-5", sys / "node/node1/cpulist": "2-3,6-7",
    }  # fmt: skip
    for cpu in range(8):
        topology = sys / f"cpu/cpu{cpu}/topology"
        files[topology / "thread_siblings_list"] = f"{cpu % 4},{cpu % 4 + 4}"
        files[topology / "core_id"] = str(cpu % 4)
        files[topology / "physical_package_id"] = "0"
    nic = tmp_path / "sys/bus/pci/devices/0000:17:00.0"
    for name, text in (("vendor", "0x15b3"), ("device", "0x101d"), ("class", "0x020000"), ("numa_node", "1")):
        files[nic / name] = text
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return tmp_path


def run(*words: str) -> Result:
    app = typer.Typer()
    partition.register(app)
    return CliRunner().invoke(app, [str(word) for word in words])


def test_json_has_exactly_the_promised_keys(machine: Path) -> None:
    done = run("--sysroot", str(machine), "--reserve-cores-per-node", "1", "--near", "0000:17:00.0", "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout) == {
        "reserved": "0,2,4,6",
        "isolated": "1,3,5,7",
        "nodes": {"0": {"reserved": "0,4", "isolated": "1,5"}, "1": {"reserved": "2,6", "isolated": "3,7"}},
    }


def test_table_fits_and_says_what_is_near(machine: Path) -> None:
    done = run("--sysroot", str(machine), "--reserve-cores", "2", "--near", "17:00.0", "--near-policy", "interrupts")
    assert "near 0000:17:00.0: isolated 3,7" in done.stdout
    assert "0,2,4,6" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        (["--reserve-cores-per-node", "2"], "NUMA node 0 has 2 online cores"),
        (["--reserve-cores-per-node", "-1"], "-1 cannot be reserved"),
        (["--reserve-cores", "0"], "one core or more"),
        (["--reserve-cores", "4"], "4 cores cannot be reserved"),
        (["--reserve-cores-per-node", "1", "--near", "99:00.0"], "--near=99:00.0: no PCI function"),
    ],
)
def test_bad_request_is_65(machine: Path, words: list[str], fragment: str) -> None:
    done = run("--sysroot", str(machine), *words)
    assert isinstance(done.exception, NearmetalError)
    assert done.exception.code == BAD_INTENT
    assert fragment in done.exception.message


@pytest.mark.parametrize("words", [[], ["--reserve-cores", "1", "--reserve-cores-per-node", "1"]])
def test_one_of_the_two_numbers_is_needed(machine: Path, words: list[str]) -> None:
    done = run("--sysroot", str(machine), *words)
    assert done.exit_code == 2  # turned into 64 by nearmetal's main
    assert "either --reserve-cores-per-node or --reserve-cores" in done.output
