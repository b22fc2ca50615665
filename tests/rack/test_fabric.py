"""Real physical and virtual functions (igb), real bonds, real cuts: what of the fabric needs no ConnectX card."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import Rack

from nearmetal.lab import failover
from nearmetal.lab.progress import Progress
from nearmetal.lab.rack import Rack as Lab

NUMBER = "{{ inventory_hostname[-1] }}"
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"
UNIT = "systemctl show -P ActiveState nearmetal-fabric-late.service"
F0, F1 = "0000:21:00.0", "0000:41:00.0"
STAND_IN = (
    "A bond of one VF from each PF inside the guest (here: a network namespace). igb has no VF LAG, where a VF survives "
    "the loss of its port. The emulated VF does not lose its carrier with its port, so the bond watches by ARP."
)
GUEST = """
set -e
ip netns add guest
ip netns exec guest ip link add bond9 type bond mode active-backup arp_interval 200 arp_ip_target 10.77.1.{other} \\
    fail_over_mac active
for pf in {f0} {f1}; do
    vf=$(ls /sys/bus/pci/devices/$pf/virtfn1/net)
    ip link set $vf netns guest
    ip netns exec guest ip link set $vf down
    ip netns exec guest ip link set $vf master bond9
done
ip netns exec guest ip addr add 10.77.1.{own}/24 dev bond9
ip netns exec guest ip link set bond9 up
"""


def intent(mode: str) -> dict[str, Any]:
    bond: dict[str, Any] = {
        "name": "bond0", "pfs": [{"address": F0}, {"address": F1}], "lag": False, "mode": mode,
        "addresses": [f"10.77.0.{NUMBER}/24"],
    }  # fmt: skip
    if mode == "802.3ad":
        bond["lacp_rate"] = "fast"
    macs = {F0: f"52:54:00:77:0{NUMBER}:01", F1: f"52:54:00:77:0{NUMBER}:02"}
    vfs = [{"pf": {"address": pf}, "vfs": 2, "driver": "igbvf", "vf": [{"index": 0, "mac": macs[pf]}]} for pf in (F0, F1)]
    return {"sriov_pfs": vfs, "vf_lag_bonds": [bond]}


@contextmanager
def intended(rack: Rack, folder: Path, mode: str) -> Iterator[Rack]:
    """The rack with another intent."""
    folder.mkdir(exist_ok=True)
    (folder / "hosts.yml").write_text((Path(rack.inventory) / "hosts.yml").read_text())
    (folder / "group_vars").mkdir(exist_ok=True)
    (folder / "group_vars" / "all.yml").write_text(yaml.safe_dump(intent(mode)))
    yield Rack(rack.name, str(folder), rack.env)


def cut(rack: Rack, label: str, address: str, within: tuple[str, ...] = (), stand_in: str = "") -> list[dict[str, Any]]:
    """What cuts of node1's links cost; kept for the report."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEARMETAL_STATE_DIR", rack.env["NEARMETAL_STATE_DIR"])
        lab = Lab(rack.name, Progress())
        lab.state = lab.store.load()
        result = failover.measure(lab, "node1", "node2", address, ("f0", "f1"), within)
        failover.keep(result, label, stand_in)
    print(label, json.dumps(result["effects"]))
    return list(result["effects"])


def survives(effects: list[dict[str, Any]]) -> None:
    """Traffic goes on within seconds of each cut, while the link is still down."""
    for effect in effects:
        assert effect["sent"] > 100
        assert effect["outage_ms"] is not None, effect
        if not effect["change"]["up"]:
            assert effect["lost"] < effect["sent"], f"nothing came through while the link was cut: {effect}"


def test_bonds_of_physical_functions(rack: Rack, tmp_path: Path) -> None:
    with intended(rack, tmp_path / "inv", "active-backup") as fabric:
        done = fabric.apply()
        assert done.code == 0, done.text
        assert "verified, as intended: node[1-2]" in done.out
        vfs = rack.ssh("node1", f"ip link show $(ls /sys/bus/pci/devices/{F0}/net)")
        assert "vf 0     link/ether 52:54:00:77:01:01" in vfs and "vf 1" in vfs
        survives(cut(rack, "active-backup", "10.77.0.2"))

        for own, other in ((1, 2), (2, 1)):
            rack.ssh(f"node{own}", GUEST.format(own=own, other=other, f0=F0, f1=F1))
        within = ("ip", "netns", "exec", "guest")
        survives(cut(rack, "bond of VFs in the guest", "10.77.1.2", within, STAND_IN))

        before = rack.ssh("node1", BOOT_ID)
        rack.ssh("node1", "ip netns del guest; systemd-run --on-active=1 systemctl reboot")
        wait_for_another_boot(rack, "node1", before)
        drift = fabric.run("drift", "-i", fabric.inventory, "-l", "node1", "--json")
        assert drift.code == 0, "everything is there again after a boot: " + drift.text
        assert "52:54:00:77:01:01" in rack.ssh("node1", f"ip link show $(ls /sys/bus/pci/devices/{F0}/net)")

    with intended(rack, tmp_path / "inv", "802.3ad") as fabric:
        plan = fabric.plan("-l", "node1")
        assert not plan["summary"]["reboots"]
        done = fabric.apply()
        assert done.code == 0, done.text
        bond = rack.ssh("node1", "cat /proc/net/bonding/bond0")
        assert "Partner Mac Address: 52:54:00:ff:ff:01" in bond and "Number of ports: 2" in bond
        survives(cut(rack, "802.3ad", "10.77.0.2"))
        again = fabric.apply()
        assert again.code == 0 and "0 modules run" in again.out, again.text


def wait_for_another_boot(rack: Rack, node: str, before: str) -> None:
    """Until another boot answers and our unit has ended its work in it."""
    end = time.monotonic() + 300
    while time.monotonic() < end:
        said = rack.run("lab", "ssh", "--name", rack.name, node, "--", BOOT_ID) if rack.answers(node, 30) else None
        if said and said.code == 0 and said.out.strip() != before:  # it may go down between the two
            break
        time.sleep(2)
    else:
        pytest.fail(f"{node} did not boot again")
    while time.monotonic() < end and rack.ssh(node, UNIT) == "activating":
        time.sleep(2)
    assert rack.ssh(node, UNIT) == "active"
