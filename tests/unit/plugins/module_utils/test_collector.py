"""The collector brings home what the observers need: a tree probed equals the tree read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trees
from ansible_collections.nearmetal.rack.plugins.module_utils import collector
from ansible_collections.nearmetal.rack.plugins.module_utils.host import FileHost, HostError, Missing, Refused
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.document import observe
from ansible_collections.nearmetal.rack.plugins.plugin_utils import probe


def run(root: str, *paths: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-S", "-"], input=collector.program(root, paths), text=True, capture_output=True, check=False
    )


def collect(root: str, *paths: str) -> Any:
    done = run(root, *paths)
    assert done.returncode == 0, done.stderr
    return probe.snapshot({"stdout": "banner\n" + done.stdout, "stderr": "", "rc": 0}, root, "", "")


SHAPES = {
    "server": {"sockets": 2, "nodes": 4, "cores": 3, "threads": 2, "offline": [5], "irqs": 3},
    "old kernel": {"nodes": 2, "cores": 2, "threads": 2, "old_kernel": True, "offline": [1, 6]},
    "arm": {"nodes": 1, "cores": 4, "threads": 1, "arm": True},
    "no numa": {"numa": False},
    "hybrid": {"cores": 4, "threads": 1, "efficiency": [2, 3]},
    "gpu memory": {"nodes": 2, "gpu_nodes": 2, "memory_nodes": 1, "node_ids": [0, 8, 9, 250, 251]},
    "devices": {
        "nodes": 2,
        "devices": [
            {"address": "0000:17:00.0", "bridge": "0000:16:00.0", "vfs": (1, 8), "netdev": "ens1", "group": 3, "driver": "mlx5_core"},
            {"address": "0000:17:00.1", "physfn": "0000:17:00.0", "uevent": False},
            {"address": "0000:18:00.0", "node": None, "class_": "0x0c0330", "uevent": False},
        ],
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_probed_is_as_read(tmp_path: Path, name: str) -> None:
    root = str(trees.build(**SHAPES[name]).write(tmp_path))
    assert observe(collect(root, *probe.probe_paths())) == observe(FileHost(root))


def test_samples_probed_are_as_read(samples: Path, tmp_path: Path) -> None:
    done = 0
    for path in sorted((samples / "topology").glob("*.t*z*")):
        root = tmp_path / str(done)
        root.mkdir()
        subprocess.run(["tar", "xf", str(path), "-C", str(root)], check=True)
        if not (root / "sys").is_dir():
            (root,) = root.iterdir()
        assert observe(collect(str(root), *probe.probe_paths())) == observe(FileHost(str(root))), path.name
        done += 1
    assert done


def test_this_machine() -> None:
    state, again = observe(collect("/")), observe(FileHost("/"))
    assert state["live"] is True
    for section in ("cpu", "pci", "net", "os", "iommu"):
        assert state[section] == again[section]
    assert [n["section"] for n in state["unread"]] == [n["section"] for n in again["unread"]]


def test_links_stay_inside_the_root(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "os-release").write_text("ID=outside\n")
    tree = trees.build(files={"/usr/lib/os-release": "ID=inside\n"})
    del tree.files["/etc/os-release"]
    tree.links["/etc/os-release"] = "/../../usr/lib/os-release"
    tree.links["/var/lib/nearmetal"] = str(outside)
    root = str(tree.write(tmp_path / "root"))
    (outside / "reboot.json").write_text("{}")
    host = collect(root)
    assert observe(host)["os"]["id"] == "inside"
    assert not host.exists("/var/lib/nearmetal/reboot.json")


def test_globs_folders_and_loops(tmp_path: Path) -> None:
    files = {f"/boot/loader/entries/{n}": n for n in ("a-1.conf", "b.conf", "b.conf.bak")}
    tree = trees.build(files={**files, "/etc/d1/x.d/f": "1", "/etc/d2/x.d/f": "2"})
    tree.links["/etc/loop"] = "loop"
    root = str(tree.write(tmp_path))
    host = collect(root, "/boot/loader/entries/*.conf", "/etc/d*/x.d/f", "/etc/loop", "/etc/none/*", "/boot")
    assert host.names("/boot/loader/entries") == ["a-1.conf", "b.conf"]
    assert host.read("/etc/d2/x.d/f") == "2"
    assert host.exists("/boot") and not host.exists("/etc/none")


def test_undecodable_bytes_survive(tmp_path: Path) -> None:
    root = trees.build().write(tmp_path)
    (root / "proc/cmdline").write_bytes(b"a=\xff\x00b \xc3\xa4\n")
    assert collect(str(root)).read_bytes("/proc/cmdline") == b"a=\xff\x00b \xc3\xa4\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to drop privileges")
def test_unprivileged_reads_are_errors(tmp_path: Path) -> None:
    root = trees.build().write(tmp_path)
    (root / "proc/cmdline").chmod(0)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.owner() == "root" and folder != Path("/tmp") and str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    done = subprocess.run(
        ["setpriv", "--reuid=65534", "--clear-groups", "/usr/bin/python3", "-I", "-S", "-"],
        input=collector.program(str(root)), text=True, capture_output=True, check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"setpriv or python3 is not usable here: {done.stderr.strip()[-80:]}")
    data = json.loads(done.stdout.split("\n", 1)[1])
    assert data["errors"] == {"/proc/cmdline": "Permission denied"}


def test_missing_root_is_said(tmp_path: Path) -> None:
    done = run(str(tmp_path / "none"))
    with pytest.raises(probe.ProbeError, match="No such file") as err:
        probe.snapshot({"stdout": done.stdout, "stderr": "", "rc": 0}, str(tmp_path / "none"), "", "")
    assert err.value.kind == "failed"


def test_it_is_valid_for_the_oldest_python() -> None:
    import ast

    ast.parse(collector.program(), feature_version=collector.MIN_PYTHON)
    assert len(collector.program()) < 20000


def test_commands_are_run_and_answer_later() -> None:
    commands = [("echo", "a b"), ("no-such-program", "x"), ("sh", "-c", "echo out; echo bad >&2; exit 3")]
    program = collector.program("/", (), commands)
    done = subprocess.run([sys.executable, "-I", "-S", "-"], input=program, text=True, capture_output=True, check=True)
    host = probe.snapshot({"stdout": done.stdout, "stderr": "", "rc": 0}, "/", "", "")
    assert host.run(["echo", "a b"]) == (0, "a b\n", "")
    assert host.run(commands[2]) == (3, "out\n", "bad\n")
    with pytest.raises(Missing):
        host.run(["no-such-program", "x"])
    with pytest.raises(Refused, match="was not run"):
        host.run(["echo", "other"])


def test_commands_for_each_physical_function(tmp_path: Path) -> None:
    devices = [
        {"address": "0000:17:00.0", "bridge": "0000:16:00.0", "vfs": (1, 8), "netdev": "ens1", "driver": "mlx5_core"},
        {"address": "0000:31:00.0", "vfs": (0, 7), "netdev": "ens2", "driver": "igb"},
        {"address": "0000:32:00.0", "driver": "nvme"},
    ]
    root = str(trees.build(devices=devices).write(tmp_path))
    templates = [["echo", "pf={pf}"], ["echo", "{mlx5}"], ["echo", "-n", "{pfnet}"], ["echo", "plain"]]
    program = collector.program(root).replace("K = []", f"K = {templates}" + collector.COMMANDS)
    done = subprocess.run([sys.executable, "-I", "-S", "-"], input=program, text=True, capture_output=True, check=True)
    said = json.loads(done.stdout.partition("\n")[2])["commands"]
    assert {k: v[1] for k, v in said.items()} == {
        "echo pf=0000:17:00.0": "pf=0000:17:00.0\n", "echo pf=0000:31:00.0": "pf=0000:31:00.0\n",
        "echo 0000:17:00.0": "0000:17:00.0\n", "echo -n ens1": "ens1", "echo -n ens2": "ens2", "echo plain": "plain\n",
    }  # fmt: skip


def test_a_tree_runs_nothing(tmp_path: Path) -> None:
    root = str(trees.build().write(tmp_path))
    assert "K = []" in collector.program(root, (), [("reboot",)])


def test_a_command_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "COMMAND_TIMEOUT", 1)
    program = collector.program("/", (), [("sleep", "60")])
    done = subprocess.run([sys.executable, "-I", "-S", "-"], input=program, text=True, capture_output=True, check=True)
    host = probe.snapshot({"stdout": done.stdout, "stderr": "", "rc": 0}, "/", "", "")
    with pytest.raises(HostError, match="no end after 1 s"):
        host.run(["sleep", "60"])
