"""Boot units and network guard on the simulated host: what is set up comes back, what is not confirmed goes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric import decide, running
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric_boot import guard, program, units
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric_boot.guardnote import NOTE, RESTORED
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric_boot.hooks import hooks
from ansible_collections.nearmetal.rack.plugins.module_utils.host import HostError
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.document import observe
from fabric_hosts import Rack, lag, options, pf
from simulated import OTHER, PF0, PF1

pytestmark = pytest.mark.simulated

OWNERS = ["networkd", "NetworkManager", "ifupdown", "netplan"]
PYZ = " ".join(program.argv())


def apply(rack: Rack, wanted: dict[str, Any], role: str = "vf_lag") -> dict[str, Any]:
    """What the module does, guard and boot units included."""
    params = {"root": "/", **decide.call_arguments(role, wanted, rack.state())}
    return running.carry_out(role, rack.host, params, False, observe, hooks(role), rack.doer())


def confirmed(rack: Rack, wanted: dict[str, Any], role: str = "vf_lag") -> dict[str, Any]:
    done = apply(rack, wanted, role)
    if "guard" in done:
        rack.sim.ok(f"{PYZ} confirm {done['guard']['token']}")
    return done


def fabric(rack: Rack) -> dict[str, Any]:
    """All that can be told apart, without what a restart changes."""
    return {key: value for key, value in rack.fabric().items() if key in ("pfs", "bonds", "bridges", "management", "managers")}


def left(rack: Rack, wanted: dict[str, Any], role: str = "vf_lag") -> list[str]:
    choice = rack.choose(role, wanted)
    return [p.message for p in choice.problems] + [s.reason for s in choice.steps]


def status(rack: Rack) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(rack.sim.read(units.STATUS))
    return found


@pytest.mark.parametrize("owner", OWNERS)
def test_comes_back_after_a_restart(owner: str, tmp_path: Path) -> None:
    rack = Rack(tmp_path, owner=owner)
    wanted = lag(pf(PF0, driver="mlx5_core"), pf(PF1, driver="mlx5_core"), mode="802.3ad")
    done = confirmed(rack, wanted)
    assert done["changed"] and rack.fabric()["guard"]["armed"] is False
    assert left(rack, wanted) == []
    assert apply(rack, wanted)["changed"] is False
    rack.sim.restart()
    assert status(rack)["early"]["state"] == status(rack)["late"]["state"] == "ok"
    shown = rack.sim.show()
    assert shown["lag"]["state"] == "active" and shown["lag"]["type"] == "switchdev"
    assert {vf["driver"] for vf in shown["vfs"]} == {"mlx5_core"}
    assert shown["bonds"][0]["by"] == owner
    assert left(rack, wanted) == []
    (bond,) = rack.fabric()["bonds"]
    assert bond["owner"] == owner and all("nearmetal" in path for path in bond["owner_files"])
    assert rack.sim.read(units.READY) == status(rack)["boot_id"]


@pytest.mark.parametrize("owner", OWNERS)
def test_survives_a_rename_of_ports(owner: str, tmp_path: Path) -> None:
    rack = Rack(tmp_path, owner=owner)
    wanted = lag(mode="802.3ad")
    confirmed(rack, wanted)
    before = {p["netdev"] for p in rack.sim.show()["pfs"]}
    rack.sim.inject("ports-renamed")
    rack.sim.restart()
    after = {p["netdev"] for p in rack.sim.show()["pfs"]}
    assert not {rack.sim.pf(PF0)["netdev"], rack.sim.pf(PF1)["netdev"]} & before and len(after) == len(before)
    assert status(rack)["late"]["state"] == "ok", status(rack)
    assert rack.sim.show()["lag"]["type"] == "switchdev" and left(rack, wanted) == []


def test_the_gate_holds(tmp_path: Path) -> None:
    """LAG stays away at boot: no VF is bound, the unit fails, kubelet does not start, and the reason is told."""
    rack = Rack(tmp_path)
    wanted = lag(pf(PF0, driver="mlx5_core"), pf(PF1, driver="mlx5_core"), mode="802.3ad")
    wanted["vf_lag"]["timeout"] = 1
    confirmed(rack, wanted)
    rack.sim.inject("lag-inactive")
    rack.sim.restart()
    shown = rack.sim.show()
    assert {vf["driver"] for vf in shown["vfs"]} == {""}
    assert shown["units"]["kubelet.service"]["active"] != "active"
    assert rack.fabric()["units"] == {units.EARLY: "active", units.LATE: "failed"}
    told = status(rack)["late"]
    assert told["state"] == "failed" and "no VF was bound" in told["error"] and "LAG" in told["error"]
    assert not rack.host.exists(units.READY)
    rack.sim.inject("clear")
    assert any("started again" in text for text in left(rack, wanted))
    assert confirmed(rack, wanted)["changed"]
    assert status(rack)["late"]["state"] == "ok" and left(rack, wanted) == []
    assert rack.fabric()["units"] == {units.EARLY: "active", units.LATE: "active"}


def test_units_that_somebody_disabled(tmp_path: Path) -> None:
    rack = Rack(tmp_path)
    confirmed(rack, lag())
    rack.sim.ok(f"systemctl disable {units.LATE}")
    assert any("units are enabled" in text for text in left(rack, lag()))
    done = confirmed(rack, lag())
    assert done["changed"] and done["operations"] == [] and "guard" not in done
    assert left(rack, lag()) == [] and confirmed(rack, lag())["changed"] is False


def test_the_owner_did_not_make_the_bond(tmp_path: Path) -> None:
    rack = Rack(tmp_path)
    wanted = lag(mode="802.3ad")
    wanted["vf_lag"]["timeout"] = 1
    confirmed(rack, wanted)
    rack.host.remove("/etc/systemd/network/05-nearmetal-bond0.netdev")
    rack.sim.restart()
    assert "networkd has not made bond0 as wanted" in status(rack)["late"]["error"]
    assert any("05-nearmetal-bond0.netdev" in text for text in left(rack, wanted))  # and the plan shows it
    confirmed(rack, wanted)
    assert left(rack, wanted) == []


def test_without_a_manager_the_units_make_the_bond(tmp_path: Path) -> None:
    rack = Rack(tmp_path)
    rack.sim.ok("systemctl stop systemd-networkd.service", "systemctl disable systemd-networkd.service")
    wanted = lag(mode="802.3ad")
    done = confirmed(rack, wanted)
    assert not any("/etc/systemd/network" in str(d) for d in done["diff"])
    rack.sim.restart()
    assert status(rack)["late"]["state"] == "ok", status(rack)
    assert rack.sim.show()["lag"]["type"] == "switchdev" and left(rack, wanted) == []


@pytest.mark.parametrize("owner", OWNERS)
def test_undo_leaves_nothing(owner: str, tmp_path: Path) -> None:
    rack = Rack(tmp_path, owner=owner)
    before = fabric(rack)
    confirmed(rack, lag(mode="802.3ad"))
    confirmed(rack, lag(pf(PF0, 0), pf(PF1, 0), mode="802.3ad", state="absent"))
    assert rack.fabric()["managers"]["own"] == {}
    assert rack.sim.run(f"systemctl is-enabled {units.LATE}").stdout.strip() == "not-found"
    after = fabric(rack)
    for one in (*before["pfs"], *after["pfs"]):
        one["eswitch"]["steering"] = one["autoprobe"] = one["up"] = None  # left as they are: nobody asked for their former values
    assert after == before
    rack.sim.restart()
    assert rack.sim.show()["vfs"] == [] and rack.sim.show()["bonds"] == []


def test_two_roles_keep_each_other(tmp_path: Path) -> None:
    rack = Rack(tmp_path)
    bond = {"name": "bond0", "pfs": [{"address": PF0}, {"address": PF1}]}
    wanted = options(sriov_pfs=[pf(PF0), pf(PF1), pf(OTHER, 3)], vf_lag_bonds=[bond])
    confirmed(rack, wanted, "sriov")
    confirmed(rack, wanted, "vf_lag")
    assert left(rack, wanted, "sriov") == left(rack, wanted, "vf_lag") == []
    rack.sim.restart()
    assert left(rack, wanted, "sriov") == left(rack, wanted, "vf_lag") == []
    assert len(rack.sim.show()["vfs"]) == 7


def test_check_mode_writes_nothing(tmp_path: Path) -> None:
    rack = Rack(tmp_path)
    wanted = lag()
    params = {"root": "/", **decide.call_arguments("vf_lag", wanted, rack.state())}
    done = running.carry_out("vf_lag", rack.host, params, True, observe, hooks("vf_lag"), rack.doer())
    assert done["changed"] and "/etc/nearmetal/fabric.json" in str(done["diff"]) and "guard" not in done
    assert rack.fabric()["managers"]["own"] == {} and not rack.host.exists(program.PATH) and not rack.host.exists(NOTE)


# --- the guard


@pytest.mark.parametrize("owner", OWNERS)
def test_not_confirmed_goes_back(owner: str, tmp_path: Path) -> None:
    rack = Rack(tmp_path, owner=owner)
    before = fabric(rack)
    done = apply(rack, lag(mode="802.3ad", mtu=9000))
    assert rack.fabric()["guard"]["armed"] and rack.sim.show()["lag"]["state"] == "active"
    rack.sim.advance(done["guard"]["seconds"] + 5)
    assert fabric(rack) == before
    assert rack.fabric()["guard"] == {"armed": False, "deadline": "", "left": ""}
    late = rack.sim.run(f"{PYZ} confirm {done['guard']['token']}")
    assert late.rc == 3 and "the network was restored" in late.stderr
    assert confirmed(rack, lag(mode="802.3ad"))["changed"]  # and the way is free again


def test_confirmed_stays(tmp_path: Path) -> None:
    rack = Rack(tmp_path)
    confirmed(rack, lag())
    after = fabric(rack)
    rack.sim.advance(10000)
    assert fabric(rack) == after and not rack.host.exists(RESTORED)


def test_goes_back_to_a_lag_with_guests(tmp_path: Path) -> None:
    """From a working LAG to another one, not confirmed: the former LAG is back, offloaded, with its drivers and VLANs."""
    rack = Rack(tmp_path)
    first = lag(pf(PF0, 2, driver="vfio-pci", vf=[{"index": 0, "vlan": 7}]), pf(PF1, 2), forwarding={"type": "bridge", "name": "br0"})
    confirmed(rack, first)
    before = fabric(rack)
    apply(rack, lag(pf(PF0, 4), pf(PF1, 0), forwarding={"type": "bridge", "name": "br0"}))
    assert fabric(rack) != before
    rack.sim.advance(1000)
    after = fabric(rack)
    for one in (*before["pfs"], *after["pfs"]):
        for vf in one["vfs"]:
            vf["representor_mtu"] = vf["representor"] = ""  # new representors may be called otherwise
    for bridge in (*before["bridges"], *after["bridges"]):
        bridge["ports"] = sorted(port["pvid"] for port in bridge["ports"])
    assert after["pfs"] == before["pfs"] and after["bridges"] == before["bridges"]
    assert after["managers"] == before["managers"]
    assert left(rack, first) == []


def test_restarted_while_armed(tmp_path: Path) -> None:
    rack = Rack(tmp_path)
    before = fabric(rack)
    done = apply(rack, lag())
    rack.sim.restart()
    assert fabric(rack) == before and rack.fabric()["guard"] == {"armed": False, "deadline": "", "left": ""}
    late = rack.sim.run(f"{PYZ} confirm {done['guard']['token']}")
    assert late.rc == 3 and "was restarted while the guard was armed" in late.stderr


def test_two_guards(tmp_path: Path) -> None:
    rack = Rack(tmp_path)
    first = guard.arm(rack.host, rack.fabric(), 60, purpose="a run")
    with pytest.raises(HostError, match="another guard is armed .a run. until"):
        guard.arm(rack.host, rack.fabric(), 60)
    assert any("guard of another run is armed" in text for text in left(rack, lag()))
    with pytest.raises(guard.Confirmed, match="no guard with this token: another one is armed"):
        guard.confirm(rack.host, "0" * 32)
    guard.confirm(rack.host, first["token"])
    assert left(rack, lag())[0].startswith("0000") or "guard" not in str(left(rack, lag()))


def test_left_over_from_a_dead_run(tmp_path: Path) -> None:
    """Restarted without our units: nobody put anything back. The plan shows it, a new run is refused, both ways out work."""
    rack = Rack(tmp_path)
    guard.arm(rack.host, rack.fabric(), 60, purpose="a run")
    rack.sim.restart()
    assert "restarted while it was armed" in rack.fabric()["guard"]["left"]
    (problem,) = rack.choose("sriov", options(sriov_pfs=[pf(OTHER)])).problems
    assert problem.kind == "host" and "left on the host" in problem.message and "state: absent" in problem.fix
    with pytest.raises(HostError, match="left over"):
        guard.arm(rack.host, rack.fabric(), 60)
    assert rack.sim.run(f"{PYZ} restore").rc == 0
    assert rack.fabric()["guard"]["left"] == ""
    guard.arm(rack.host, rack.fabric(), 60)
    assert guard.drop(rack.host) and not guard.drop(rack.host)
    assert rack.fabric()["guard"] == {"armed": False, "deadline": "", "left": ""}


def test_a_failed_change_is_undone_at_once(tmp_path: Path) -> None:
    rack = Rack(tmp_path)
    before = fabric(rack)
    rack.sim.inject("lag-inactive")
    wanted = lag()
    wanted["vf_lag"]["timeout"] = 1
    with pytest.raises(HostError, match="no VF was bound.*The former network was restored"):
        apply(rack, wanted)
    assert fabric(rack) == before and rack.fabric()["guard"]["armed"] is False


def test_what_cannot_be_restored_is_told(tmp_path: Path) -> None:
    rack = Rack(tmp_path)
    confirmed(rack, lag())
    apply(rack, lag(pf(PF0, 0), pf(PF1, 0), state="absent"))
    rack.sim.inject("lag-inactive")
    note = json.loads(rack.host.read(NOTE))
    note["former"]["lag_timeout"] = 0
    rack.host.write(NOTE, json.dumps(note))
    rack.sim.advance(1000)
    state = rack.fabric()["guard"]
    assert state["armed"] is False and "could not restore" in state["left"] and "LAG of bond0" in state["left"]
    rack.sim.inject("clear")
    assert rack.sim.run(f"{PYZ} restore").rc == 0
    assert rack.sim.show()["lag"]["state"] == "active" and rack.fabric()["guard"]["left"] == ""


def test_no_timer_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the timer does not start, nothing is touched and nothing is left over."""
    rack = Rack(tmp_path)
    before = fabric(rack)
    real = rack.host.run
    monkeypatch.setattr(rack.host, "run", lambda argv, *more, **kw: real(["false"] if argv[0] == "systemd-run" else argv, *more, **kw))
    with pytest.raises(HostError, match="timer does not start"):
        apply(rack, lag())
    assert fabric(rack) == before and not rack.host.exists(NOTE)


def test_half_a_note_is_no_missing_note(tmp_path: Path) -> None:
    rack = Rack(tmp_path)
    rack.host.write(NOTE, '{"version": 1, "tok')
    with pytest.raises(HostError, match="is no JSON"):
        guard.arm(rack.host, rack.fabric(), 60)
    assert rack.state()["fabric"]["guard"] is None
    assert any(NOTE in item["reason"] for item in rack.state()["unread"])
