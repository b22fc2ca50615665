"""Decisions about kernel arguments of all capabilities."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils.capabilities import iommu, kernel_args
from ansible_collections.nearmetal.rack.plugins.module_utils.model import (
    Call,
    CmdlineRequest,
    Step,
    reboot_digest,
    reboot_words,
)


def state(configured: str | None = "ro quiet", running: str | None = "BOOT_IMAGE=/v ro quiet", **more: Any) -> Any:
    boot = {
        "loader": "grub",
        "configured": configured,
        "sealed": more.pop("sealed", ""),
        "sources": ["/boot/grub/grub.cfg"],
    }
    boot["others"] = more.pop("others", [])
    return {
        "live": True, "boot": boot, "kernel": {"cmdline": running, "boot_id": "b1", "release": "6.12"},
        "cpu": {"arch": "x86_64", "vendor": "GenuineIntel"}, "unread": [], "last_reboot": None,
        "iommu": {"groups": 3, "types": {"identity": 3}, "units": ["dmar0"]}, "pci": [], **more,
    }  # fmt: skip


def request(*args: str, absent: tuple[str, ...] = (), why: str = "because") -> CmdlineRequest:
    return CmdlineRequest(args, absent, why)


def test_one_step_and_one_call_for_all() -> None:
    asked = {
        "iommu": request("iommu=pt", why="iommu_mode is passthrough"),
        "x": request("a=1", absent=("quiet",), why="x"),
    }
    found = kernel_args.decide_requests(asked, state())
    assert found.call == Call("nearmetal.rack.kernel_cmdline", {"args": ["iommu=pt", "a=1"], "absent": ["quiet"]})
    (step,) = found.steps
    assert (step.id, step.disruption) == ("kernel_args/cmdline", "reboot")
    assert (step.before, step.after) == ("quiet", "iommu=pt a=1 -quiet")
    assert step.reason == "iommu: iommu_mode is passthrough; x: x"
    assert step.verify == "/proc/cmdline has iommu=pt a=1 and has no quiet"


def test_in_force_and_written_is_nothing() -> None:
    asked = {"x": request("quiet", absent=("splash",))}
    assert not kernel_args.decide_requests(asked, state()).steps
    assert not kernel_args.decide_requests({}, state()).steps
    assert not kernel_args.decide_requests({"x": request("quiet")}, state(running=None)).steps


def test_written_not_booted_needs_no_call() -> None:
    found = kernel_args.decide_requests({"x": request("a=1")}, state("ro quiet a=1"))
    assert found.call is None
    assert found.steps[0].disruption == "reboot"
    assert "written, not booted yet" in found.steps[0].reason


def test_booted_not_written_needs_no_reboot() -> None:
    found = kernel_args.decide_requests({"x": request("a=1")}, state("ro", "ro a=1"))
    assert found.call is not None
    assert found.steps[0].disruption == "none"
    assert "the next boot would not" in found.steps[0].reason
    later = kernel_args.decide_requests({"x": request("a=1")}, state("ro a=1", "ro a=1", others=["ro"]))
    assert later.call is not None
    assert "kernels installed later" in later.steps[0].reason


def test_step_is_the_same_before_and_after_a_boot_in_vain() -> None:
    asked = {"x": request("a=1", "b=1")}
    first = kernel_args.decide_requests(asked, state("ro a=1")).steps[0]
    second = kernel_args.decide_requests(asked, state("ro a=1 b=1")).steps[0]
    assert first.after == second.after == "a=1 b=1"
    assert reboot_digest([first]) == reboot_digest([second])


def test_loop_breaker_says_what_was_written_and_booted() -> None:
    asked = {"x": request("a=1", "b=1")}
    steps = kernel_args.decide_requests(asked, state("ro")).steps
    other = Step("hugepages", "k", "0", "4", "r", "reboot", "v")
    note = {"boot_id": "b0", "reason": "digest", "wanted": reboot_words([*steps, other])}
    found = kernel_args.decide_requests(asked, state("ro a=1 b=1", "ro a=1", last_reboot=note))
    assert not found.steps
    (problem,) = found.problems
    assert problem.kind == "host"
    assert "Written (grub): ro a=1 b=1" in problem.message
    assert "Booted (/proc/cmdline): ro a=1" in problem.message
    assert "/boot/grub/grub.cfg" in problem.fix
    fresh = {**note, "boot_id": "b1"}
    assert kernel_args.decide_requests(asked, state("ro a=1 b=1", "ro a=1", last_reboot=fresh)).steps
    unrelated = {**note, "wanted": "kernel_args/cmdline=z=1"}
    assert kernel_args.decide_requests(asked, state("ro a=1 b=1", "ro", last_reboot=unrelated)).steps


@pytest.mark.parametrize(
    ("one", "two", "conflict"),
    [
        (request("iommu=pt"), request("iommu=nopt"), True),
        (request("iommu=pt"), request(absent=("iommu",)), True),
        (request("isolcpus=2-3"), request("isolcpus=2,3"), False),
        (request("intel_iommu=on"), request("intel_iommu=on,sm_on"), False),
        (request("intel_iommu=on,sm_on"), request("intel_iommu=on"), False),
        (request(absent=("quiet",)), request(absent=("quiet",)), False),
    ],
)
def test_two_that_want_different_things(one: CmdlineRequest, two: CmdlineRequest, conflict: bool) -> None:
    found, args, absent = kernel_args.merge({"iommu": one, "kernel_args": two})
    assert bool(found) == conflict
    if conflict:
        assert "iommu asks for" in found[0].message
        assert "kernel_args asks for" in found[0].message
        assert found[0].kind == "intent"
        assert not kernel_args.decide_requests({"iommu": one, "kernel_args": two}, state()).steps
    else:
        assert len(args) + len(absent) == 1
        assert "sm_on" in args[0] if "intel" in "".join(args) else True


def test_sealed_host_is_a_problem_only_where_something_is_missing() -> None:
    sealed = state(None, "ro quiet", sealed="a unified kernel image was booted")
    (problem,) = kernel_args.decide_requests({"x": request("a=1")}, sealed).problems
    assert problem.kind == "host"
    assert "unified kernel image" in problem.message
    fine = kernel_args.decide_requests({"x": request("quiet")}, sealed)
    assert not fine.problems
    assert "cannot be kept" in fine.warnings[0]
    unread = state(None, unread=[{"section": "boot", "reason": "/boot/grub2/grub.cfg: Permission denied"}])
    assert "Permission denied" in kernel_args.decide_requests({"x": request("a=1")}, unread).problems[0].message


def test_problems_name_variable_value_and_fix() -> None:
    (found,) = kernel_args.problems({"present": ["a b"], "absent": []})
    assert (found.variable, found.value) == ("kernel_args_present", "a b")
    assert "one list item each" in found.fix
    (clash,) = kernel_args.problems({"present": ["a=1"], "absent": ["a"]})
    assert (clash.variable, clash.value) == ("kernel_args_absent", "a")
    assert kernel_args.problems({"present": ["a=1", "a=2"], "absent": ["b"]}) == []


def test_own_request_alone() -> None:
    assert not kernel_args.decide({"present": [], "absent": []}, state()).steps
    assert kernel_args.decide({"present": ["a"], "absent": []}, state()).steps[0].after == "a"


AMD = {"vendor": "AuthenticAMD"}


@pytest.mark.parametrize(
    ("mode", "cpu", "facts", "args", "absent"),
    [
        ("passthrough", {}, {}, ("intel_iommu=on", "iommu=pt"), ("iommu.passthrough",)),
        ("translated", {}, {}, ("intel_iommu=on", "iommu=nopt"), ("iommu.passthrough",)),
        ("off", {}, {}, ("intel_iommu=off",), ("iommu", "iommu.passthrough")),
        ("passthrough", AMD, {"units": ["ivhd0"]}, ("iommu=pt",), ("amd_iommu=off", "iommu.passthrough")),
        ("passthrough", AMD, {"units": []}, ("iommu=pt",), ("amd_iommu=off", "iommu.passthrough")),
        ("off", {"vendor": "AuthenticAMD"}, {"units": []}, ("amd_iommu=off",), ("iommu", "iommu.passthrough")),
        ("passthrough", AMD, {"units": [], "tables": ["DMAR"]}, ("intel_iommu=on", "iommu=pt"), ("iommu.passthrough",)),
        ("passthrough", {"arch": "aarch64", "vendor": "ARM"}, {}, ("iommu.passthrough=1",), ()),
        ("translated", {"arch": "aarch64", "vendor": "ARM"}, {}, ("iommu.passthrough=0",), ()),
    ],
)  # fmt: skip
def test_iommu_words_by_platform(
    mode: str, cpu: dict[str, str], facts: dict[str, Any], args: tuple[str, ...], absent: tuple[str, ...]
) -> None:
    host = state()
    host["cpu"].update(cpu)
    host["iommu"].update(facts)
    found = iommu.cmdline({"mode": mode, "strict": None}, host)
    assert (found.args, found.absent) == (args, absent)
    assert mode in found.why
    assert {w.split("=")[0] for w in args} <= set(iommu.OWNED)


def test_iommu_inactive_and_strict() -> None:
    assert not iommu.cmdline({"mode": None, "strict": None}, state())
    assert not iommu.decide({"mode": None, "strict": None}, state()).problems
    assert iommu.cmdline({"mode": "translated", "strict": True}, state()).args[-1] == "iommu.strict=1"
    assert iommu.problems({"mode": "passthrough", "strict": False})[0].variable == "iommu_strict"
    assert iommu.problems({"mode": "translated", "strict": False}) == []


BOOTED = "ro intel_iommu=on iommu=pt"


@pytest.mark.parametrize(
    ("mode", "running", "facts", "message"),
    [
        ("passthrough", BOOTED, {}, ""),
        ("passthrough", "ro quiet", {"units": [], "types": {}}, ""),
        ("passthrough", BOOTED, {"units": []}, "VT-d is most likely off in the BIOS"),
        ("passthrough", BOOTED, {"types": {"DMA-FQ": 3}}, "no IOMMU group is of type identity: 3 of type DMA-FQ"),
        (
            "translated",
            "ro intel_iommu=on iommu=nopt",
            {"types": {"identity": 3}},
            "all 3 IOMMU groups are of type identity",
        ),
        ("translated", "ro intel_iommu=on iommu=nopt", {"types": {"DMA": 3}}, ""),
        ("off", "ro intel_iommu=off", {"units": []}, ""),
        ("off", "ro intel_iommu=off", {}, "still has dmar0"),
    ],
)
def test_iommu_is_verified_by_units_and_types(mode: str, running: str, facts: dict[str, Any], message: str) -> None:
    host = state(running, running)
    host["iommu"].update(facts)
    found = iommu.decide({"mode": mode, "strict": None}, host).problems
    text = " ".join(p.message + p.fix for p in found)
    assert bool(found) == bool(message), text
    assert message in text
    assert all(p.kind == "host" for p in found)


def test_iommu_says_what_it_could_not_read() -> None:
    host = state(BOOTED, BOOTED, unread=[{"section": "iommu", "reason": "Permission denied"}])
    assert "Permission denied" in iommu.decide({"mode": "passthrough", "strict": None}, host).warnings[0]
    mixed = state(BOOTED, BOOTED, iommu={"groups": 3, "types": {"identity": 2, "DMA": 1}, "units": ["dmar0"]})
    assert "1 of type DMA" in iommu.decide({"mode": "passthrough", "strict": None}, mixed).warnings[0]
