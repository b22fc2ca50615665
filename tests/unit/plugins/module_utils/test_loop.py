"""The one plan of a host, from toy capabilities."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils import loop
from ansible_collections.nearmetal.rack.plugins.module_utils.capabilities import kernel_args
from ansible_collections.nearmetal.rack.plugins.module_utils.model import (
    REBOOT,
    Call,
    CmdlineRequest,
    Decision,
    IntentError,
    Problem,
    Step,
)


def step(capability: str, key: str = "k", disruption: str = "none", requires: tuple[str, ...] = ()) -> Step:
    return Step(capability, key, "a", "b", "because", disruption, "read back", requires)


def capability(name: str, decision: Decision = Decision(), after: tuple[str, ...] = (), **extra: Any) -> Any:  # noqa: B008
    return SimpleNamespace(
        AFTER=after, problems=lambda options: [], cmdline=lambda options, state: extra.get("request", CmdlineRequest()),
        decide=lambda options, state: decision, OWNED=extra.get("owned", ()),
    )  # fmt: skip


STATE: Any = {
    "kernel": {"cmdline": "quiet", "boot_id": "b1", "release": "6.1"}, "last_reboot": None, "unread": [], "live": True,
    "boot": {"loader": "grub", "configured": "quiet", "sealed": "", "sources": []}, "os": {"id": "debian"},
}  # fmt: skip


def test_order_follows_after_then_the_alphabet() -> None:
    caps = {"a": capability("a", after=("z",)), "z": capability("z"), "m": capability("m")}
    assert loop.in_order(caps) == ["m", "z", "a"]
    with pytest.raises(ValueError, match="wait for each other"):
        loop.in_order({"a": capability("a", after=("b",)), "b": capability("b", after=("a",))})


def test_all_reboots_become_one_and_it_requires_each_step() -> None:
    caps = {n: capability(n, Decision((step(n, disruption="reboot"),), Call("m", {}))) for n in ("x", "y")}
    plan = loop.decide({"x": {}, "y": {}}, STATE, caps)
    assert plan["status"] == "changes"
    assert [s["id"] for s in plan["steps"]] == ["x/k", "y/k", "reboot/reboot"]
    assert plan["steps"][-1]["requires"] == ["x/k", "y/k"]
    assert loop.summary({"h": plan})["reboots"] == 1
    assert loop.summary({"h": plan})["by_disruption"]["reboot"] == 2


MOVES = {"cpus": "smt becomes on"}


def test_what_counts_cpus_waits_while_the_bios_changes_them() -> None:
    caps = {
        "bios": capability("bios", Decision((step("bios", "smt", "reboot"),), Call("b", {}), moves=MOVES)),
        "cpus": capability("cpus", Decision((step("cpus"),), Call("c", {}), warnings=("of now",))),
        "pages": capability("pages", Decision((step("pages"),), Call("p", {}))),
    }
    caps["cpus"].COUNTS, caps["pages"].COUNTS = ("cpus", "nodes"), ("nodes",)
    plan = loop.decide(dict.fromkeys(caps, {}), STATE, caps)
    assert plan["roles"] == ["bios", "pages"], "node numbers stay"
    (waits,) = [s for s in plan["steps"] if s["capability"] == "cpus"]
    assert (waits["before"], waits["after"], waits["requires"]) == ("a", "decided after the reboot", ["reboot"])
    assert "smt becomes on" in waits["reason"] and not plan["warnings"]
    assert not plan["second_reboot"] and loop.summary({"h": plan})["reboots"] == 1

    caps["bios"] = capability("bios")  # as it is after the reboot
    assert loop.decide(dict.fromkeys(caps, {}), STATE, caps)["roles"] == ["cpus", "pages"]


def test_kernel_arguments_that_name_cpus_announce_a_second_reboot() -> None:
    counts = capability("cpus", Decision((step("cpus"),)), request=CmdlineRequest(("isolcpus=1",), (), "guests"))
    counts.COUNTS = ("cpus",)
    caps = {"bios": capability("bios", Decision((step("bios", "smt", "reboot"),), moves=MOVES)), "cpus": counts}
    caps["kernel_args"] = kernel_args
    plan = loop.decide({"bios": {}, "cpus": {}}, STATE, caps)
    assert [s["id"] for s in plan["steps"]] == ["bios/smt", "cpus/k", "cpus/second-reboot", "reboot/reboot"]
    assert plan["second_reboot"] and loop.summary({"h": plan})["reboots"] == 2
    assert plan["reboot_words"] == "bios/smt=b", "the first reboot is for the BIOS alone"

    counts.cmdline = lambda options, state: CmdlineRequest((), ("isolcpus",), "not any more")
    boots = {**STATE, "boot": {**STATE["boot"], "configured": "quiet isolcpus=1"}}
    plan = loop.decide({"bios": {}, "cpus": {}}, boots, caps)
    assert plan["roles"] == ["kernel_args"] and not plan["second_reboot"], "what only goes counts nothing"


def test_what_does_not_fit_the_topology_of_now_may_fit_the_next() -> None:
    def unfit(options: Any, state: Any) -> Decision:
        raise IntentError([Problem("pages", 3, "there is no node 3", "name another")])

    pages = capability("pages")
    pages.decide, pages.COUNTS = unfit, ("nodes",)
    moving = capability("bios", Decision((step("bios", "nps", "reboot"),), moves={"nodes": "numa_per_socket becomes 2"}))
    plan = loop.decide({"bios": {}, "pages": {}}, STATE, {"bios": moving, "pages": pages})
    (waits,) = [s for s in plan["steps"] if s["capability"] == "pages"]
    assert plan["status"] == "changes" and waits["before"] == "now: there is no node 3"

    pages.decide = lambda options, state: Decision(problems=(Problem("pages", 3, "no kernel has it", "leave it", "host"),))
    assert loop.decide({"bios": {}, "pages": {}}, STATE, {"bios": moving, "pages": pages})["status"] == "problems"
    pages.decide = unfit
    assert loop.decide({"pages": {}}, STATE, {"pages": pages})["status"] == "problems"


def test_one_step_that_needs_a_power_cycle_makes_the_one_reboot_one() -> None:
    caps = {
        "x": capability("x", Decision((step("x", disruption="reboot"),))),
        "y": capability("y", Decision((step("y", disruption="power_cycle"),))),
    }
    plan = loop.decide({"x": {}, "y": {}}, STATE, caps)
    assert plan["reboot"] and plan["power_cycle"]
    assert [s["id"] for s in plan["steps"]] == ["x/k", "y/k", "reboot/reboot"]
    assert plan["steps"][-1]["disruption"] == "power_cycle"
    assert plan["steps"][-1]["requires"] == ["x/k", "y/k"]
    assert plan["reboot_words"] == "x/k=b\ny/k=b"
    assert not loop.decide({"x": {}}, STATE, caps)["power_cycle"]


def test_a_capability_sees_the_options_of_those_it_reads() -> None:
    seen: list[Any] = []
    caps = {"a": capability("a"), "b": capability("b")}
    caps["a"].READS = ("b", "c")
    caps["a"].problems = lambda options: seen.append(options) or []
    caps["a"].decide = lambda options, state: seen.append(options) or Decision()
    intent = {"a": {"k": 1}, "b": {"x": 2}}
    assert loop.check(intent, caps) == []
    loop.decide(intent, STATE, caps)
    assert seen == [{"k": 1, "b": {"x": 2}, "c": None}] * 2


def test_what_must_wait_for_the_reboot_is_held_back() -> None:
    caps = {
        "late": capability("late", Decision((step("late", requires=(REBOOT,)),), Call("m", {}))),
        "soon": capability("soon", Decision((step("soon", disruption="reboot"),), Call("m", {}))),
    }
    assert loop.decide({"late": {}, "soon": {}}, STATE, caps)["roles"] == ["soon"]
    assert loop.decide({"late": {}}, STATE, caps)["roles"] == ["late"]


def test_a_problem_anywhere_keeps_the_whole_host_untouched() -> None:
    def refuse(options: Any, state: Any) -> Decision:
        raise IntentError([Problem("bad_x", 1, "no", "yes")])

    bad = capability("bad")
    bad.decide = refuse
    caps = {"bad": bad, "good": capability("good", Decision((step("good"),), Call("m", {})), request=CmdlineRequest(("a=1",)))}
    plan = loop.decide({"bad": {}, "good": {}}, STATE, {**caps, "kernel_args": kernel_args})
    assert plan["status"] == "problems"
    assert plan["calls"] == {}
    assert plan["roles"] == []
    assert not [s for s in plan["steps"] if s["capability"] == "kernel_args"]


def test_kernel_arguments_of_all_are_written_once() -> None:
    caps = {n: capability(n, request=CmdlineRequest((f"{n}=1",), (), f"{n} needs it")) for n in ("x", "y")}
    plan = loop.decide({"x": {}, "y": {}}, STATE, caps)
    assert list(plan["calls"]) == ["kernel_args"]
    assert set(plan["calls"]["kernel_args"]["args"]["args"]) == {"x=1", "y=1"}
    reason = plan["steps"][0]["reason"]
    assert "x needs it" in reason
    assert "y needs it" in reason
    assert plan["reboot"]


def test_converged_host_has_no_steps() -> None:
    caps = {"x": capability("x", request=CmdlineRequest(("quiet",)))}
    plan = loop.decide({"x": {}}, STATE, caps)
    assert (plan["status"], plan["steps"], plan["calls"], plan["reboot"]) == ("ok", [], {}, False)


def test_reboot_in_vain_is_not_repeated() -> None:
    caps = {"x": capability("x", request=CmdlineRequest(("a=1",)))}
    state = {**STATE, "boot": {**STATE["boot"], "configured": "quiet a=1"}}
    plan = loop.decide({"x": {}}, state, caps)
    assert plan["reboot"]
    assert not plan["calls"], "it is written already"
    note = {"boot_id": "b0", "reason": plan["reboot_digest"], "wanted": plan["reboot_words"]}
    again = loop.decide({"x": {}}, {**state, "last_reboot": note}, caps)
    assert again["status"] == "problems"
    assert again["problems"][0]["kind"] == "host"
    before_reboot = loop.decide({"x": {}}, {**state, "last_reboot": {**note, "boot_id": "b1"}}, caps)
    assert before_reboot["status"] == "changes", "noted in this very boot: the reboot is still to come"


def test_an_argument_has_one_owner() -> None:
    caps = {"kernel_args": kernel_args, "x": capability("x", owned=("nohz_full",))}
    found = loop.check({"kernel_args": {"present": ["nohz-full=2"], "absent": []}, "x": {}}, caps)
    assert [(p.variable, p.value) for p in found] == [("kernel_args_present", "nohz-full=2")]
    assert not loop.check({"kernel_args": {"present": ["nohz_full=2"], "absent": []}}, caps)


def test_marks_are_of_what_is_done() -> None:
    def made(after: str, count: int, before: str = "a") -> list[str]:
        steps = [{"id": "i", "before": before, "after": after, "disruption": "none"}]
        return list(loop.marks(steps, {"x": {"module": "m", "args": {"count": count}}}))

    assert made("b", 1) == made("b", 1, before="something that changes all the time")
    assert len(set(made("b", 1)) & set(made("c", 1))) == 1, "the call is the same, the step is not"
    assert len(set(made("b", 1)) & set(made("b", 2))) == 1, "the step is the same, the call is not"
    assert set(loop.marks([], {})) <= set(made("b", 1)), "less than was agreed to is still agreed to"
