"""inspect, capture and audit as a user calls them."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import trees
import typer
from typer.testing import CliRunner, Result

from nearmetal import hosts
from nearmetal.commands import audit, capture, inspect
from nearmetal.errors import BAD_INTENT, FAILED, USAGE, NearmetalError

app = typer.Typer()
for command in (inspect, capture, audit):
    command.register(app)


def run(*args: Any) -> Result:
    return CliRunner().invoke(app, [str(a) for a in args])


def refused(*args: Any) -> NearmetalError:
    error = run(*args).exception
    assert isinstance(error, NearmetalError), error
    return error


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    device = {"address": "0000:17:00.0", "vfs": (0, 8), "netdev": "ens1", "group": 1}
    files = {"/etc/hostname": "web01\n", "/proc/sys/kernel/hostname": "web01\n"}
    built = trees.build(
        nodes=2, cores=12, numbering="nodes_interleaved", devices=[device], hugepages={(0, 1048576): 4}, irqs=2, files=files,
        cmdline="root=UUID=ab80a591-bf63-4a64-b4ba-9bf57adbce90 rd.iscsi.password=geheim ip=10.1.2.3 hostname=web01",
    )  # fmt: skip
    return built.archive(tmp_path / "host.tar.gz", "host/")


def test_json_has_what_is_promised(tree: Path) -> None:
    result = run("inspect", "--sysroot", tree, "--json")
    assert result.exit_code == 0
    (line,) = result.stdout.splitlines()
    state = json.loads(line)
    assert state["schema"] == 1 and "host" not in state
    assert state["cpu"]["cores"][1] == {"cpus": "1,25", "node": 1, "socket": 0, "core_id": 0, "die": 0, "kind": ""}
    assert set(state["cpu"]["nodes"][0]) >= {"id", "cpus", "memory_bytes", "distances"}
    assert set(state["pci"][0]) >= {"address", "vendor", "device", "class", "numa_node"}
    assert all(set(note) == {"section", "reason"} for note in state["unread"])


def test_table_fits_100_columns_and_shows_what_matters(tree: Path) -> None:
    result = run("inspect", "--sysroot", tree)
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 100
    for text in ("2 NUMA node(s), 24 core(s), 2 threads a core", "4 x 1G", "VFs 0 of 8", "0-46 by 2", "ens1", "rd.iscsi"):
        assert text in result.stdout


@pytest.mark.parametrize("name", ["inspect", "audit", "capture"])
def test_usage_errors(name: str, tree: Path) -> None:
    for args in ([], ["host", "--sysroot", tree]):
        assert refused(name, *args).code == USAGE
    assert refused(name, "--sysroot", tree.parent / "none").code == BAD_INTENT


def test_hosts_are_one_document_a_line_and_failures_are_told(monkeypatch: pytest.MonkeyPatch, tree: Path) -> None:
    state = json.loads(run("inspect", "--sysroot", tree, "--json").stdout)
    answer = hosts.Observed({"a": state, "b": state}, {"c": "Connection refused"})
    monkeypatch.setattr(inspect, "observe_hosts", lambda *_args, **_more: answer)
    result = run("inspect", "a", "b", "c", "--json")
    assert result.exit_code == FAILED
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(line["host"], line.get("error")) for line in lines] == [("a", None), ("b", None), ("c", "Connection refused")]
    assert result.stderr.count("Connection refused") == 1
    table = run("inspect", "a", "c")
    assert table.exit_code == FAILED and "24 core(s)" in table.stdout


def test_live_host_and_unreachable_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSIBLE_SSH_ARGS", "-o ConnectTimeout=2 -o BatchMode=yes")
    observed = hosts.observe_hosts(["localhost", "no-such-host.invalid"])
    assert observed.documents["localhost"]["live"] is True
    assert set(observed.failed) == {"no-such-host.invalid"}


def test_patterns_that_match_nothing(tmp_path: Path) -> None:
    inventory = tmp_path / "hosts"
    inventory.write_text("a ansible_connection=local\n")
    with pytest.raises(NearmetalError) as err:
        hosts.observe_hosts(["zzz"], str(inventory))
    assert err.value.code == BAD_INTENT and "zzz" in err.value.message
    assert refused("inspect", "a", "-i", tmp_path / "none").code == BAD_INTENT


def test_capture_is_scrubbed_and_reads_as_the_host(tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "c.tgz"
    result = run("capture", "--sysroot", tree, "--out", out)
    assert result.exit_code == 0 and "scrubbed: serials" in result.stdout
    with tarfile.open(out) as archive:
        text = b"".join(archive.extractfile(m).read() for m in archive if m.isfile())  # type: ignore[union-attr]
        assert {"proc", "sys"} <= {m.name.split("/")[0] for m in archive}
        assert all(m.mtime == 0 and m.uid == 0 for m in archive)
    for secret in (b"geheim", b"ab80a591", b"10.1.2.3", b"web01", b"aa:bb:cc"):
        assert secret not in text
    before, after = (json.loads(run("inspect", "--sysroot", p, "--json").stdout) for p in (tree, out))
    assert {k: before[k] for k in ("cpu", "pci", "memory", "iommu")} == {k: after[k] for k in ("cpu", "pci", "memory", "iommu")}
    assert after["kernel"]["cmdline"].startswith("root=UUID=00000000-0000-4000-8000-000000000001 ")
    again = tmp_path / "c2.tgz"
    run("capture", "--sysroot", out, "--out", again)
    assert json.loads(run("inspect", "--sysroot", again, "--json").stdout)["cpu"] == before["cpu"]


def test_capture_keeps_what_is_asked(tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "c.tgz"
    assert run("capture", "--sysroot", tree, "--out", out, "--keep", "uuids,hostnames").exit_code == 0
    cmdline = json.loads(run("inspect", "--sysroot", out, "--json").stdout)["kernel"]["cmdline"]
    assert "ab80a591" in cmdline and "web01" in cmdline and "geheim" not in cmdline
    assert refused("capture", "--sysroot", tree, "--keep", "all").code == USAGE


def test_capture_keeps_unread_unread(tmp_path: Path) -> None:
    data = {"files": {"/sys/devices/system/cpu/online": "0\n"}, "links": {}, "errors": {"/proc/cmdline": "Permission denied"},
            "folders": [], "live": True}  # fmt: skip
    capture.write(data, tmp_path / "c.tgz", [])
    state = json.loads(run("inspect", "--sysroot", tmp_path / "c.tgz", "--json").stdout)
    assert any("Permission denied" in note["reason"] for note in state["unread"])
    run("capture", "--sysroot", tmp_path / "c.tgz", "--out", tmp_path / "d.tgz")
    state = json.loads(run("inspect", "--sysroot", tmp_path / "d.tgz", "--json").stdout)
    assert any("Permission denied" in note["reason"] for note in state["unread"])


def test_capture_refuses_an_unknown_bmc_and_unwritable_places(tree: Path, tmp_path: Path) -> None:
    error = refused("capture", "host", "--bmc")
    assert error.code == USAGE and "bios_baseuri" in error.message
    error = refused("capture", "--sysroot", tree, "--out", tmp_path / "none" / "c.tgz")
    assert error.code == FAILED and "cannot write" in error.message


def test_a_hostile_archive_writes_nothing_outside(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    built = trees.build(files={"/proc/irq/24/smp_affinity_list": "0\n"})
    built.links["/etc/nearmetal"] = str(outside)
    built.files["/etc/nearmetal/evil"] = "x"
    built.files["/etc/nearmetal"] = "y"
    run("capture", "--sysroot", built.archive(tmp_path / "evil.tar", mode="w"), "--out", tmp_path / "c.tgz")
    assert list(outside.iterdir()) == []


def test_audit(tree: Path) -> None:
    result = run("audit", "--sysroot", tree, "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == 0 and document["preset"] == "ai_storage_vm"
    found = {f["id"]: f for f in document["findings"]}
    assert {"iommu-off", "no-vfs", "hugepages-uneven", "no-isolation"} <= found.keys()
    assert all(f["evidence"] and f["cost"] and f["fix"] and f["severity"] for f in found.values())
    table = run("audit", "--sysroot", tree)
    assert max(map(len, table.stdout.splitlines())) <= 100 and "The IOMMU is off" in table.stdout
    assert refused("audit", "--sysroot", tree, "--preset", "nonsense").code == USAGE
    assert "no-vfs" not in run("audit", "--sysroot", tree, "--preset", "pinned_vm", "--json").stdout
