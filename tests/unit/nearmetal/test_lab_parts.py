"""Parts of a rack that need no QEMU: command line, keys, inventory, ports, processes, state, KVM probe."""

from __future__ import annotations

import dataclasses
import io
import os
import shlex
import socket
import stat
import subprocess
import sys
import tarfile
import threading
from pathlib import Path

import pytest
import yaml

from nearmetal.errors import NearmetalError
from nearmetal.lab import accel, identity, inventory, ports, process, qemu
from nearmetal.lab.progress import Progress
from nearmetal.lab.store import NodeState, RackState, Store

SPEC = qemu.NodeSpec("node1", 1)
HARDWARE = qemu.Hardware("00000000-0000-4000-8000-000000000001", "tcg", (10, 0), {
    "f0": "52:54:00:00:01:00", "f1": "52:54:00:00:01:01", "mgmt": "52:54:00:00:01:02",
})  # fmt: skip
FILES = qemu.NodeFiles(Path("/state/node1"), Path("/run/rack"), "node1")


def options(argv: list[str], name: str) -> list[str]:
    """Values of an option."""
    return [value for key, value in zip(argv, argv[1:], strict=False) if key == name]


def test_command_of_a_node() -> None:
    argv = qemu.command(SPEC, HARDWARE, FILES, 22100)
    devices = options(argv, "-device")
    assert [d for d in devices if d.startswith("pxb-pcie")] == [
        "pxb-pcie,id=pxb0,bus=pcie.0,bus_nr=32,numa_node=0,addr=8",
        "pxb-pcie,id=pxb1,bus=pcie.0,bus_nr=64,numa_node=1,addr=9",
    ]
    assert [d.split(",")[2] for d in devices if d.startswith("igb")] == ["bus=rp0", "bus=rp1"]
    assert sum("size=1024M" in o for o in options(argv, "-object")) == 2
    assert "user,id=mgmt,hostfwd=tcp:127.0.0.1:22100-:22" in options(argv, "-netdev")
    assert "-loadvm" not in argv and "-no-reboot" not in argv


def test_command_that_goes_on_from_a_snapshot() -> None:
    assert options(qemu.command(SPEC, HARDWARE, FILES, 22100, "factory"), "-loadvm") == ["factory"]


@pytest.mark.parametrize(("version", "word"), [((8, 0), "reconnect=1"), ((9, 2), "reconnect-ms=500")])
def test_reconnect_is_spelt_as_this_qemu_knows_it(version: tuple[int, int], word: str) -> None:
    argv = qemu.command(SPEC, dataclasses.replace(HARDWARE, version=version), FILES, 1)
    streams = [o for o in options(argv, "-netdev") if o.startswith("stream")]
    assert len(streams) == 2 and all(o.endswith(word) for o in streams)


def test_commas_in_paths_are_doubled() -> None:
    files = qemu.NodeFiles(Path("/a,b"), Path("/run"), "node1")
    assert "file=/a,,b/disk.qcow2," in " ".join(qemu.command(SPEC, HARDWARE, files, 1))


def test_fingerprint_follows_hardware_qemu_and_image_but_not_places() -> None:
    same = qemu.fingerprint(SPEC, HARDWARE, "i", "v")
    assert same == qemu.fingerprint(SPEC, HARDWARE, "i", "v")
    others = {
        qemu.fingerprint(dataclasses.replace(SPEC, memory_mib=1024), HARDWARE, "i", "v"),
        qemu.fingerprint(SPEC, dataclasses.replace(HARDWARE, accel="kvm"), "i", "v"),
        qemu.fingerprint(SPEC, HARDWARE, "other", "v"),
        qemu.fingerprint(SPEC, HARDWARE, "i", "other"),
    }
    assert len(others) == 4 and same not in others


def test_addresses_differ_between_nodes_and_racks() -> None:
    macs = {qemu.mac(rack, node, card) for rack in ("lab", "dev") for node in (1, 2) for card in (0, 1, 2)}
    assert len(macs) == 12 and all(int(m[:2], 16) & 3 == 2 for m in macs)


def test_seed_gives_a_node_its_own_keys(tmp_path: Path) -> None:
    host = tmp_path / "host_node1"
    identity.keypair(host, "node1")
    login = identity.keypair(tmp_path / "id", "login")
    with tarfile.open(fileobj=io.BytesIO(identity.seed("node1", host, login))) as tar:
        members = {m.name: m for m in tar.getmembers()}
        key = tar.extractfile("etc/ssh/ssh_host_ed25519_key")
        assert key and key.read() == host.read_bytes()
        granted = tar.extractfile("root/.ssh/authorized_keys")
        assert granted and granted.read().decode() == login + "\n"
    assert members["etc/ssh/ssh_host_ed25519_key"].mode == 0o600
    assert members["home/operator/.ssh/authorized_keys"].uid == identity.OPERATOR_UID
    assert stat.S_IMODE(host.stat().st_mode) == 0o600


def test_keys_are_made_once(tmp_path: Path) -> None:
    first = identity.keypair(tmp_path / "sub" / "id", "x")
    assert identity.keypair(tmp_path / "sub" / "id", "x") == first


def test_ssh_reads_the_configuration_as_meant(tmp_path: Path) -> None:
    folder = tmp_path / "with blank"
    folder.mkdir()
    config = folder / "config"
    config.write_text(identity.ssh_config([("node1", 22100), ("node2", 22101)], "lab", folder))
    said = subprocess.run(["ssh", "-G", "-F", str(config), "node2"], capture_output=True, text=True, check=True).stdout
    values = dict(line.split(" ", 1) for line in said.splitlines())
    assert values["port"] == "22101" and values["hostkeyalias"] == "node2.lab"
    assert values["stricthostkeychecking"] == "true" and str(folder / "known_hosts") in values["userknownhostsfile"]


def test_inventory_checks_host_keys(tmp_path: Path) -> None:
    keys = Path("/state/with blank/ssh")
    path = tmp_path / "inventory" / "hosts.yml"
    bmcs = {"node1": "https://127.0.0.1:22102", "node2": "https://127.0.0.1:22103"}
    nodes = [(SPEC, 22100), (qemu.NodeSpec("node2", 2), 22101)]
    inventory.write(path, inventory.document("lab", keys, nodes, bmcs, "secret"))
    assert path.stat().st_mode & 0o077 == 0, "it has the BMCs' password"
    hosts = yaml.safe_load(path.read_text())["all"]["children"]["compute"]["hosts"]
    assert {name: host["ansible_port"] for name, host in hosts.items()} == {"node1": 22100, "node2": 22101}
    assert [host["bios_baseuri"] for host in hosts.values()] == list(bmcs.values())
    assert hosts["node1"]["bios_ca_path"] == str(keys / "bmc.pem"), "certificates of BMCs are checked"
    words = shlex.split(hosts["node1"]["ansible_ssh_common_args"])
    assert "StrictHostKeyChecking=yes" in words and "HostKeyAlias=node1.lab" in words
    assert 'UserKnownHostsFile="/state/with blank/ssh/known_hosts"' in words


def test_inventory_of_the_default_rack_is_in_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory.paths, "checkout", lambda: Path("/top"))
    assert inventory.inventory_path("lab", tmp_path) == Path("/top/inventories/lab/hosts.yml")
    assert inventory.inventory_path("dev", tmp_path) == tmp_path / "inventory" / "hosts.yml"
    monkeypatch.setattr(inventory.paths, "checkout", lambda: None)
    assert inventory.inventory_path("lab", tmp_path) == tmp_path / "inventory" / "hosts.yml"


def test_a_port_in_use_is_passed_over_or_refused() -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        assert not ports.is_free(port)
        with pytest.raises(NearmetalError, match=f"Port {port} on 127.0.0.1 is taken"):
            ports.asked(port, 1)
    first = ports.choose(())
    assert ports.choose({first}) != first


def test_a_port_out_of_range_is_refused() -> None:
    with pytest.raises(NearmetalError, match="--ssh-port 80 is out of range"):
        ports.asked(80, 2)


def test_a_process_is_known_again_and_ended(tmp_path: Path) -> None:
    started, child = process.spawn([sys.executable, "-c", "print('here', flush=True); input()"], tmp_path / "log")
    assert child.wait(20) != 0, "standard input must be empty"
    assert not started.alive() and "here" in (tmp_path / "log").read_text()
    started, _ = process.spawn(["sleep", "60"], tmp_path / "log")
    assert started.alive() and os.getsid(started.pid) == started.pid
    assert not process.Process(started.pid, started.started + 1).alive()
    process.stop(process.Process(started.pid, started.started + 1))
    assert started.alive(), "another process of the same id must be left alone"
    process.stop(started)
    assert not started.alive()


def test_a_stubborn_process_is_killed(tmp_path: Path) -> None:
    code = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(60)"
    log = tmp_path / "log"
    started, _ = process.spawn([sys.executable, "-c", code], log)
    while "on" not in log.read_text():
        threading.Event().wait(0.05)
    process.stop(started, 0.3)
    assert not started.alive()


def test_state_survives_and_rejects_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARMETAL_STATE_DIR", str(tmp_path))
    store = Store("r1")
    assert store.load() == RackState(name="r1")
    state = RackState(name="r1", nodes={"node1": NodeState(uuid="u", port=1, process=process.Process(1, 2))})
    store.save(state)
    assert Store("r1").load() == state
    (store.folder / "rack.json").write_text('{"name": 1}')
    with pytest.raises(NearmetalError, match=r"state of rack r1 cannot be read: .*rack\.json"):
        store.load()


@pytest.mark.parametrize("name", ["", "Lab", "../up", "a b", "x" * 21, "1st"])
def test_names_that_no_folder_or_host_could_have(name: str) -> None:
    with pytest.raises(NearmetalError, match="is no name for a rack"):
        Store(name)


def test_a_rack_in_use_says_by_whom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARMETAL_STATE_DIR", str(tmp_path))
    with Store("r1").lock():
        with pytest.raises(NearmetalError, match=rf"Rack r1 is in use by another command \(process {os.getpid()}\)"):
            Store("r1").lock(0).__enter__()
        with Store("r2").lock(0):
            pass
    with Store("r1").lock(0):
        pass


def test_kvm_is_tried_once_and_the_answer_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARMETAL_CACHE_DIR", str(tmp_path))
    tries: list[str] = []
    monkeypatch.setattr(accel.os, "access", lambda path, mode: True)
    monkeypatch.setattr(accel, "boots", lambda kind, kernel: bool(tries.append(kind)))
    quiet, kernel = Progress(quiet=True), tmp_path / "vmlinuz"
    assert [accel.choose("v1", kernel, quiet), accel.choose("v1", kernel, quiet)] == ["tcg", "tcg"]
    assert tries == ["kvm"]
    monkeypatch.setattr(accel, "boots", lambda kind, kernel: True)
    assert accel.choose("v2", kernel, quiet) == "kvm" and accel.choose("v1", kernel, quiet) == "tcg"
    (tmp_path / "accel.json").write_text("not json")
    assert accel.choose("v1", kernel, quiet) == "kvm"


def test_without_the_device_kvm_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accel.os, "access", lambda path, mode: False)
    monkeypatch.setattr(accel, "boots", lambda kind, kernel: pytest.fail("tried"))
    assert accel.choose("v1", Path("vmlinuz"), Progress(quiet=True)) == "tcg"


@pytest.mark.parametrize(
    ("script", "works"),
    [
        ('echo "Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)"', True),
        ('echo "ioctl(KVM_CREATE_VM) failed" >&2; exit 1', False),
        ("echo Linux version; exec sleep 60", False),
    ],
)
def test_kvm_works_only_if_the_kernel_comes_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, works: bool
) -> None:
    fake = tmp_path / accel.QEMU
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(accel, "TIMEOUT_S", 2)
    assert accel.boots("kvm", tmp_path / "vmlinuz") is works
