"""A whole rack with stand-ins for QEMU and ssh: real processes, sockets and ports, no guests."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from nearmetal.errors import NearmetalError
from nearmetal.lab import boot, image, ports, preflight, rack
from nearmetal.lab.cli import app

# Speaks QMP, greets like an ssh server, and does what files in its folder say: "silent" (nothing ever answers),
# "panic" (once: the serial log says so), "refuse" (ends with a message, as for a broken option),
# "crash" (once, as it answers). A reset ends it, and it tells why to whoever listens on its second socket.
FAKE_QEMU = r"""#!@PYTHON@
import json, os, re, socket, sys, threading
here = os.path.dirname(os.path.abspath(__file__))
flag = lambda name: os.path.join(here, name)
args = sys.argv[1:]
if "--version" in args:
    print("QEMU emulator version 10.0.2 (fake)"); sys.exit()
open(flag("calls"), "a").write(json.dumps(args) + "\n")
if os.path.exists(flag("refuse")):
    sys.exit("qemu: -device igb: no such device")
text = " ".join(args)
def answer(sock):
    with sock.makefile("rw") as f:
        f.write('{"QMP": {}}\n'); f.flush()
        for line in f:
            asked = json.loads(line)
            if asked["execute"] == "human-monitor-command":
                open(flag("monitor"), "a").write(asked["arguments"]["command-line"] + "\n")
            f.write('{"event": "X"}\n{"return": %s}\n' % ('""' if "human" in asked["execute"] else "{}")); f.flush()
            if asked["execute"] == "query-status" and os.path.exists(flag("crash")):
                os.remove(flag("crash"))
                os._exit(134)
            if asked["execute"] == "quit":
                os._exit(0)
            if asked["execute"] == "system_reset":
                for other in listeners:
                    other.sendall(b'{"event": "SHUTDOWN", "data": {"guest": false, "reason": "host-qmp-system-reset"}}\n')
                os._exit(0)
def serve(s, work):
    while True:
        conn = s.accept()[0]
        try: work(conn)
        except OSError: pass
if os.path.exists(flag("panic")):
    os.remove(flag("panic"))
    open(re.search(r"logfile=([^,]+)", text)[1], "a").write("Kernel panic - not syncing: no luck\n")
elif not os.path.exists(flag("silent")):
    tcp = socket.create_server(("127.0.0.1", int(re.search(r"hostfwd=tcp:127.0.0.1:(\d+)", text)[1])))
    threading.Thread(target=serve, args=(tcp, lambda c: (c.sendall(b"SSH-2.0-x\r\n"), c.close())), daemon=True).start()
listeners = []
def unix(option):
    path = option.split(",")[0].removeprefix("unix:")
    if os.path.exists(path): os.remove(path)
    made = socket.socket(socket.AF_UNIX)
    made.bind(path); made.listen()
    return made
control, events = (unix(args[i + 1]) for i, word in enumerate(args) if word == "-qmp")
threading.Thread(target=serve, args=(events, listeners.append), daemon=True).start()
serve(control, answer)
"""
FAKE_SSH = '#!/bin/sh\nfor last; do :; done\ncase "$last" in *"read now"*) echo time; read now;; *) echo running;; esac\n'
FAKE_IMG = "#!/bin/sh\nfor last; do :; done\necho disk > \"$last\"\n"
START_BMCS = rack.Rack._start_bmcs
QUICK = boot.Limits(boot=20, stall=2, load=5, settle=5)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder with the stand-ins, first in PATH; state, cache and image are of this test alone."""
    folder = tmp_path / "bin"
    folder.mkdir()
    scripts = {preflight.QEMU: FAKE_QEMU.replace("@PYTHON@", sys.executable), "ssh": FAKE_SSH, "qemu-img": FAKE_IMG}
    for name, text in scripts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("NEARMETAL_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("NEARMETAL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    monkeypatch.setattr(rack.accel, "choose", lambda version, kernel, progress: "tcg")
    monkeypatch.setattr(preflight, "check_memory", list)
    monkeypatch.setattr(preflight, "check_disk", lambda folder, gib: None)
    monkeypatch.setattr(rack.Rack, "_start_bmcs", lambda self: None)  # a second of processor each time
    # Ports of racks that really run on this machine are left alone.
    monkeypatch.setattr(ports, "FIRST", 24000 + os.getpid() % 1000)
    monkeypatch.setattr(ports, "LAST", 25999)
    made = image.image_path(rack.Recipe())
    made.parent.mkdir(parents=True)
    made.touch()
    image.kernel_path(rack.Recipe()).touch()
    return folder


@pytest.fixture
def one(fake: Path) -> rack.Rack:
    """A rack that is not up yet; taken down at the end whatever happens."""
    yield (made := rack.Rack("t1", limits=QUICK))
    made._cancel.clear()
    made.down()


def calls(fake: Path) -> list[list[str]]:
    """Command lines that QEMU was started with."""
    return [json.loads(line) for line in (fake / "calls").read_text().splitlines()]


def running(made: rack.Rack) -> dict[str, int | None]:
    """Process ids of the nodes."""
    return {n["name"]: n["pid"] for n in made.status()["nodes"]}


def test_up_down_and_up_again_from_the_snapshot(fake: Path, one: rack.Rack) -> None:
    one.up()
    status = one.status()
    assert status["up"] and status["switch"]["state"] == "running"
    assert [n["snapshots"] for n in status["nodes"]] == [["factory"], ["factory"]]
    hosts = yaml.safe_load(Path(status["inventory"]).read_text())["all"]["children"]["compute"]["hosts"]
    assert [h["ansible_port"] for h in hosts.values()] == [n["ssh_port"] for n in status["nodes"]]
    pids = [status["switch"]["pid"], *(n["pid"] for n in status["nodes"])]
    runtime = Path(one.state.runtime)
    one.down()
    assert not runtime.exists()
    assert all(not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text() for pid in pids)
    one.up()
    assert ["-loadvm" in call for call in calls(fake)] == [False, False, True, True]
    assert one.status()["up"]


def test_up_leaves_what_runs_alone(fake: Path, one: rack.Rack) -> None:
    one.up()
    before = running(one)
    one.node("node2").stop()
    one.up()
    after = running(one)
    assert after["node1"] == before["node1"] and after["node2"] not in (None, before["node2"])


def test_nodes_have_their_own_identity_and_keep_it(fake: Path, one: rack.Rack) -> None:
    one.up()
    one.down()
    one.up()
    uuids = [call[call.index("-uuid") + 1] for call in calls(fake)]
    assert len(set(uuids)) == 2
    known = (one.store.keys / "known_hosts").read_text().splitlines()
    assert len({line.split()[2] for line in known}) == len(known) == 2


def test_two_racks_side_by_side(fake: Path, one: rack.Rack) -> None:
    other = rack.Rack("t2", limits=QUICK)
    try:
        one.up()
        other.up()
        taken = [n["ssh_port"] for r in (one, other) for n in r.status()["nodes"]]
        assert len(set(taken)) == 4 and one.state.runtime != other.state.runtime
        other.down()
        assert one.status()["up"]
    finally:
        other.down()


def test_a_panic_is_tried_once_more(fake: Path, one: rack.Rack) -> None:
    (fake / "panic").touch()
    one.up()
    assert one.status()["up"] and len(calls(fake)) == 3


def test_a_node_that_hangs_ends_up_with_the_reason_and_nothing_running(fake: Path, one: rack.Rack) -> None:
    (fake / "silent").touch()
    with pytest.raises(NearmetalError, match=r"node1 hangs: nothing on its serial port or ssh.*serial\.log"):
        one.up()
    assert len(calls(fake)) == 4, "each node twice"
    assert running(one) == {"node1": None, "node2": None}
    assert one.status()["switch"]["state"] == "stopped"


def test_qemu_that_refuses_is_quoted(fake: Path, one: rack.Rack) -> None:
    (fake / "refuse").touch()
    with pytest.raises(NearmetalError, match="QEMU of node1 did not start: qemu: -device igb: no such device"):
        one.up()
    assert running(one) == {"node1": None, "node2": None}


def test_a_snapshot_of_another_qemu_is_not_used(fake: Path, one: rack.Rack) -> None:
    one.up()
    one.down()
    script = fake / preflight.QEMU
    script.write_text(script.read_text().replace("10.0.2", "10.1.0"))
    one.up()
    assert not any("-loadvm" in call for call in calls(fake))


def test_snapshots_for_boot_configurations(fake: Path, one: rack.Rack) -> None:
    one.up()
    one.snapshot("node1", "isolated")
    one.load("node1", "isolated")
    assert calls(fake)[-1][-2:] == ["-loadvm", "isolated"]
    one.reset(["node1"])
    assert calls(fake)[-1][-2:] == ["-loadvm", "factory"]
    assert "savevm isolated" in (fake / "monitor").read_text()
    with pytest.raises(NearmetalError, match="node2 has no snapshot 'isolated'; it has: factory"):
        one.load("node2", "isolated")
    with pytest.raises(NearmetalError, match="is no name for a snapshot"):
        one.snapshot("node1", "a b; quit")


def test_power(fake: Path, one: rack.Rack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rack.Rack, "_start_bmcs", START_BMCS)
    one.up()
    bmcs = one.status()["bmcs"]["pid"]
    one.power("node1", "off")
    assert running(one)["node1"] is None
    one.power("node1", "on", wait=True)
    assert running(one)["node1"] and "-loadvm" not in calls(fake)[-1]
    pid = running(one)["node1"]
    one.power("node1", "reset", wait=True)
    after = running(one)["node1"]
    assert after and after != pid, "the BMC starts another QEMU, as the BIOS then wants it"
    one.power("node1", "on")
    assert running(one)["node1"] == after
    (fake / "crash").touch()
    one.power("node1", "reset")
    end = time.monotonic() + 20
    while time.monotonic() < end and ((fake / "crash").exists() or not running(one)["node1"]):
        time.sleep(0.1)
    assert running(one)["node1"] not in (None, after), "a QEMU that crashes is started again"
    assert "node1: QEMU ended without a word" in (one.store.folder / "bmcs.log").read_text()
    one.power("node1", "shutdown")  # the fake only answers
    one.power("node1", "off")
    time.sleep(1)
    assert running(one)["node1"] is None, "what was switched off stays off"
    with pytest.raises(NearmetalError, match="power 'explode' is unknown: one of off, on, reset, shutdown"):
        one.power("node1", "explode")
    with pytest.raises(NearmetalError, match="has no node 'node9'; it has: node1, node2"):
        one.power("node9", "off")
    one.down()
    assert not rack.process.Process(bmcs, 0).alive() and one.status()["bmcs"] == {"state": "stopped", "pid": None}


def test_a_switch_that_died_is_started_again(fake: Path, one: rack.Rack) -> None:
    one.up()
    assert one.state.switch
    os.kill(one.state.switch.pid, signal.SIGKILL)
    one.up()
    assert one.status()["switch"]["state"] == "running"


def test_down_leaves_a_process_alone_that_is_not_ours(fake: Path, one: rack.Rack) -> None:
    one.up()
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        one.node("node1").stop()
        state = one.store.load()
        state.nodes["node1"].process = rack.process.Process(stranger.pid, 1)
        one.store.save(state)
        assert running(one)["node1"] is None
        one.down()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_port_that_was_taken_meanwhile_is_replaced(fake: Path, one: rack.Rack) -> None:
    import socket

    one.up()
    one.down()
    port = one.state.nodes["node1"].port
    with socket.create_server(("127.0.0.1", port)):
        one.up()
        assert one.state.nodes["node1"].port not in (port, one.state.nodes["node2"].port)
        one.down()
        with pytest.raises(NearmetalError, match=f"Port {port} on 127.0.0.1 is taken"):
            one.up(ssh_port=port)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_up_leaves_nothing_running(fake: Path, one: rack.Rack, number: signal.Signals) -> None:
    (fake / "silent").touch()
    limits = dataclasses.replace(QUICK, stall=60, boot=60)
    one.limits = limits
    threading.Thread(target=_when_started, args=(fake, number), daemon=True).start()
    former = signal.signal(number, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    try:
        with pytest.raises(NearmetalError, match="Interrupted; nothing that was started is left running") as caught:
            one.up()
    finally:
        signal.signal(number, former)
    assert caught.value.code == 130
    assert running(one) == {"node1": None, "node2": None}
    assert one.status()["switch"]["state"] == "stopped" and not one.state.runtime


def _when_started(fake: Path, number: int) -> None:
    """Send the signal once both nodes' QEMU were started."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if (fake / "calls").exists() and len(calls(fake)) == 2:
            time.sleep(1)
            break
        time.sleep(0.1)
    os.kill(os.getpid(), number)


def test_purge_forgets_everything(fake: Path, one: rack.Rack) -> None:
    one.up()
    one.down(purge=True)
    assert not one.store.folder.exists()


def test_an_image_built_anew_makes_new_disks(fake: Path, one: rack.Rack) -> None:
    one.up()
    one.down()
    os.utime(image.image_path(one.recipe), (1, 1))
    one.up()
    assert not any("-loadvm" in call for call in calls(fake))


def test_command_line(fake: Path, one: rack.Rack) -> None:
    runner = CliRunner()
    assert runner.invoke(app, ["up", "--name", "t1"]).exit_code == 0
    done = runner.invoke(app, ["status", "--name", "t1", "--json"])
    assert json.loads(done.stdout)["up"] is True
    table = runner.invoke(app, ["status", "--name", "t1"])
    assert "node2" in table.stdout and "inventory:" in table.stdout
    assert runner.invoke(app, ["reset", "node2", "--name", "t1"]).exit_code == 0
    assert runner.invoke(app, ["down", "--name", "t1"]).exit_code == 0
    assert json.loads(runner.invoke(app, ["status", "--name", "t1", "--json"]).stdout)["up"] is False
    assert "never up" in runner.invoke(app, ["status", "--name", "unknown"]).stdout


def test_ssh_command(fake: Path, one: rack.Rack) -> None:
    with pytest.raises(NearmetalError, match="Rack t1 was never up: nearmetal lab up --name t1"):
        one.ssh_argv("node1")
    one.up()
    assert one.ssh_argv("node1", ["uname", "-r"]) == ["ssh", "-F", str(one.ssh_config), "node1", "uname", "-r"]
    one.down()
    with pytest.raises(NearmetalError, match="node1 is not running"):
        one.ssh_argv("node1")


def test_time_is_sent_when_the_node_asks(fake: Path, one: rack.Rack) -> None:
    (fake / "ssh").write_text(
        f'#!/bin/sh\nfor last; do :; done\ncase "$last" in *"read now"*) echo time; read now; echo $now > {fake}/now;; '
        "*) echo running;; esac\n"
    )
    one.up()
    assert abs(float((fake / "now").read_text()) - time.time()) < 30
