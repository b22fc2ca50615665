"""The capability cpu_isolation: what it asks for, what it refuses, and that it comes to rest."""

from __future__ import annotations

import time
from typing import Any

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils import cpulist, irq, slices
from ansible_collections.nearmetal.rack.plugins.module_utils.capabilities import cpu_isolation
from ansible_collections.nearmetal.rack.plugins.module_utils.model import REBOOT, IntentError
from host_states import changed, machines, state, unhurried
from hypothesis import given
from hypothesis import strategies as st

IRQS = [
    {"irq": 0, "name": "timer", "affinity": "0-7", "effective": "0"},
    {"irq": 5, "name": "", "affinity": "0-7", "effective": ""},
    {"irq": 24, "name": "eth0-rx-0", "affinity": "0-7", "effective": "3"},
    {"irq": 25, "name": "nvme0q1", "affinity": "1", "effective": "1"},
    {"irq": 26, "name": "eth0-rx-1", "affinity": "0,4", "effective": "3"},
]


def options(**given_options: Any) -> dict[str, Any]:
    return {
        "state": "present", "mode": "cpusets", "reserved_cores_per_node": 1, "reserved_cores": 0,
        "reserved_cpus": "", "near": [], "near_policy": "guests", "isolcpus_flags": ["domain", "managed_irq"],
        "nohz_full": True, "rcu_nocbs": True, **given_options,
    }  # fmt: skip


def converged(wanted: dict[str, Any], machine: dict[str, Any]) -> dict[str, Any]:
    """The machine after everything that was decided was done, and after a reboot."""
    want = cpu_isolation.desired(wanted, machine)
    files = {path: text for path, text in cpu_isolation.files(want, machine).items() if text is not None}
    kernel = wanted["mode"] == "kernel"
    request = cpu_isolation.cmdline(wanted, machine)
    reserved = cpulist.format(want.reserved)
    return changed(
        machine,
        cpu={"isolated": cpulist.format(want.isolated) if kernel else "", "nohz_full": cpulist.format(want.isolated)},
        kernel={"cmdline": " ".join(("quiet", *request.args))},
        confinement={
            "files": files,
            "effective": dict.fromkeys(slices.UNITS, reserved),
            "default_irq_affinity": reserved,
            "irqs": [{**i, "affinity": reserved, "effective": reserved[:1]} for i in machine["confinement"]["irqs"]],
        },
    )


@unhurried
@given(machines(), st.sampled_from(["cpusets", "kernel"]), st.booleans())
def test_what_was_done_is_not_done_again(machine: dict[str, Any], mode: str, live: bool) -> None:
    machine = changed(machine, confinement={"irqs": IRQS})
    machine["live"] = live
    wanted = options(mode=mode, reserved_cores=1)
    try:
        first = cpu_isolation.decide(wanted, machine)
    except IntentError:
        return
    assert [s.key for s in first.steps][:3] == ["slices", "irq-affinity", "irqbalance"]
    again = cpu_isolation.decide(wanted, converged(wanted, machine))
    assert again.steps == ()
    assert again.problems == ()
    assert again.call is None


@unhurried
@given(machines())
def test_absent_comes_to_rest_too(machine: dict[str, Any]) -> None:
    assert cpu_isolation.decide(options(state="absent"), machine).call is None
    try:
        done = converged(options(reserved_cores=1), machine)
    except IntentError:
        return
    undo = cpu_isolation.decide(options(state="absent"), done)
    assert undo.call.args == {"state": "absent"}
    assert [s.key for s in undo.steps] == ["slices", "irq-affinity", "irqbalance"]


def test_steps_say_what_was_found_and_is_wanted() -> None:
    effective = {"init.scope": "0-7", "system.slice": "0-7", "user.slice": "0-3"}
    machine = changed(state(), confinement={"irqs": IRQS, "effective": effective})
    found = cpu_isolation.decide(options(), machine)
    by_key = {s.key: s for s in found.steps}
    assert by_key["slices"].before == "init.scope 0-7, system.slice 0-7, user.slice 0-3"
    assert by_key["slices"].after == "0,2,4,6"
    assert by_key["irq-affinity"].before == (
        "new interrupts on 0-7; 2 of 5 on other CPUs: 24 eth0-rx-0, 25 nvme0q1"
    )  # fmt: skip
    assert by_key["irqbalance"].after == "CPUs 1,3,5,7 banned"
    assert {s.disruption for s in found.steps} == {"none"}
    assert found.call.args == {"state": "present", "mode": "cpusets", "reserved": "0,2,4,6"}


def test_one_interrupt_astray_is_one_step() -> None:
    done = converged(options(), changed(state(), confinement={"irqs": IRQS}))
    done["confinement"]["irqs"][2].update(affinity="0-7", effective="7")
    steps = cpu_isolation.decide(options(), done).steps
    assert [(s.key, s.before) for s in steps] == [("irq-affinity", "1 of 5 on other CPUs: 24 eth0-rx-0")]


def test_interrupts_that_the_kernel_keeps_are_a_warning() -> None:
    done = converged(options(), changed(state(), confinement={"irqs": IRQS}))
    done["confinement"]["irqs"][3].update(affinity="1", effective="1")
    done["confinement"]["files"][irq.UNMOVABLE] = "0 timer\n25 nvme0q1\n"
    found = cpu_isolation.decide(options(), done)
    assert found.steps == ()
    assert "1 interrupts stay on CPUs of guests" in found.warnings[0]
    assert "25 nvme0q1" in found.warnings[0]


def test_daemons_loose_although_the_files_are_right() -> None:
    done = converged(options(), state())
    done["confinement"]["effective"]["user.slice"] = "0-7"
    assert [(s.key, s.before) for s in cpu_isolation.decide(options(), done).steps] == [("slices", "user.slice 0-7")]


def test_a_unit_that_is_not_started_is_held_by_its_file_alone() -> None:
    """user.slice exists from the first login on that systemd-logind knows of; before, there is no control group."""
    done = converged(options(), state())
    done["confinement"]["effective"]["user.slice"] = None
    assert cpu_isolation.decide(options(), done).steps == ()
    del done["confinement"]["files"][slices.path("user.slice")]
    steps = cpu_isolation.decide(options(), done).steps
    assert [(s.key, s.before) for s in steps] == [("slices", "confined, but not after the next boot")]


def test_where_no_unit_has_a_cpuset_all_run_anywhere() -> None:
    machine = changed(state(), confinement={"effective": dict.fromkeys(slices.UNITS)})
    by_key = {s.key: s for s in cpu_isolation.decide(options(), machine).steps}
    assert by_key["slices"].before == "init.scope all CPUs, system.slice all CPUs, user.slice all CPUs"


@pytest.mark.parametrize("irqbalance", ["active", "inactive", "absent", ""])
def test_irqbalance_is_provided_for_wherever_it_may_come_from(irqbalance: str) -> None:
    machine = changed(state(), confinement={"irqbalance": irqbalance})
    assert "irqbalance" in [s.key for s in cpu_isolation.decide(options(), machine).steps]
    assert cpu_isolation.decide(options(), converged(options(), machine)).steps == ()


def test_cpusets_mode_takes_the_boot_arguments_back() -> None:
    assert not cpu_isolation.cmdline(options(), state(cmdline="quiet xisolcpus=1"))
    machine = changed(state(cmdline="quiet isolcpus=1 rcu_nocbs=1"), boot={"configured": "nohz-full=1 isolcpus=1"})
    for wanted in (options(), options(state="absent")):
        request = cpu_isolation.cmdline(wanted, machine)
        assert (request.args, request.absent) == ((), ("isolcpus", "nohz_full", "rcu_nocbs"))


def test_kernel_mode_asks_for_boot_arguments_and_waits_for_the_reboot() -> None:
    wanted = options(mode="kernel", nohz_full=False)
    request = cpu_isolation.cmdline(wanted, state())
    assert request.args == (
        "isolcpus=domain,managed_irq,1,3,5,7", "rcu_nocbs=1,3,5,7", "irqaffinity=0,2,4,6",
    )  # fmt: skip
    assert request.absent == ()
    assert cpu_isolation.cmdline(wanted, state(cmdline="nohz_full=1")).absent == ("nohz_full",)
    steps = [s for s in cpu_isolation.decide(wanted, state()).steps if s.disruption == "reboot"]
    assert [s.key for s in steps] == ["isolated"]
    assert REBOOT in steps[0].requires


def test_only_the_reboot_missing_makes_no_call() -> None:
    wanted = options(mode="kernel")
    pending = changed(converged(wanted, state()), cpu={"isolated": "", "nohz_full": ""}, kernel={"cmdline": "quiet"})
    found = cpu_isolation.decide(wanted, pending)
    assert [s.key for s in found.steps] == ["isolated", "nohz_full"]
    assert found.call is None
    assert found.problems == ()


def test_booted_with_the_argument_but_not_isolated_is_a_fault_of_the_host() -> None:
    wanted = options(mode="kernel")
    broken = changed(converged(wanted, state()), cpu={"isolated": "", "nohz_full": "(null)"})
    found = cpu_isolation.decide(wanted, broken)
    assert [(p.variable, p.kind) for p in found.problems] == [
        ("cpu_isolation_isolcpus_flags", "host"), ("cpu_isolation_nohz_full", "host"),
    ]  # fmt: skip
    assert "/sys/devices/system/cpu/isolated says ''" in found.problems[0].message
    assert found.steps == ()


@pytest.mark.parametrize(
    ("cmdline", "cpus"),
    [
        ("isolcpus=2-3", {2, 3}),
        ("isolcpus=2 quiet isolcpus=domain,managed_irq,5-6,8", {5, 6, 8}),
        ("isolcpus=managed_irq,", set()),
        ("xisolcpus=1 quiet", None),
        ("isolcpus=2-N", None),
    ],
)
def test_cpus_of_a_booted_argument(cmdline: str, cpus: set[int] | None) -> None:
    assert cpu_isolation.booted_cpus(cmdline, "isolcpus") == cpus


@pytest.mark.parametrize("cgroup", ["v1", "v2-no-cpuset", ""])
def test_cpusets_need_the_unified_hierarchy(cgroup: str) -> None:
    machine = changed(state(), confinement={"cgroup": cgroup})
    problem = cpu_isolation.decide(options(), machine).problems[0]
    assert (problem.variable, problem.kind) == ("cpu_isolation_mode", "host")
    assert "cpu_isolation_mode: kernel" in problem.fix
    kernel = cpu_isolation.decide(options(mode="kernel"), machine)
    assert kernel.problems == ()
    assert "isolcpus alone" in kernel.warnings[0]
    assert "slices" not in [s.key for s in kernel.steps]


def test_host_without_systemd_is_refused() -> None:
    problems = cpu_isolation.decide(options(), changed(state(), os={"systemd": False})).problems
    assert "does not run systemd" in problems[0].message


def test_confined_guests_are_a_warning() -> None:
    machine = changed(state(), confinement={"effective": {"machine.slice": "0-3"}})
    assert "machine.slice is confined to CPUs 0-3" in cpu_isolation.decide(options(), machine).warnings[0]


def test_device_of_unknown_place_is_a_warning() -> None:
    machine = state(pci={"0000:17:00.0": None})
    assert "0000:17:00.0" in cpu_isolation.decide(options(near=["17:00.0"]), machine).warnings[0]


@pytest.mark.parametrize(
    ("given_options", "variable"),
    [
        ({"reserved_cores_per_node": "two"}, "reserved_cores_per_node"),
        ({"reserved_cores_per_node": {0: -1}}, "reserved_cores_per_node"),
        ({"reserved_cores": -2}, "reserved_cores"),
        ({"reserved_cores": 2, "reserved_cpus": "0"}, "reserved_cpus"),
        ({"reserved_cpus": "0-"}, "reserved_cpus"),
        ({"near": ["eth0"]}, "near"),
        ({"mode": "kernel", "isolcpus_flags": ["managed_irq"]}, "isolcpus_flags"),
    ],
)
def test_bad_intent_is_found_without_a_host(given_options: dict[str, Any], variable: str) -> None:
    found = cpu_isolation.problems(options(**given_options))
    assert [(p.variable, p.kind) for p in found] == [("cpu_isolation_" + variable, "intent")]


def test_good_intent_has_no_problems() -> None:
    assert cpu_isolation.problems(options(near=["17:00.0", "0000:9A:00.1"], mode="kernel", isolcpus_flags=[])) == []
    assert cpu_isolation.problems(options(state="absent", reserved_cores=-1)) == []


def test_bad_intent_of_a_host_names_the_role_variable() -> None:
    with pytest.raises(IntentError) as caught:
        cpu_isolation.cmdline(options(reserved_cores_per_node={3: 1}), state())
    assert caught.value.found[0].variable == "cpu_isolation_reserved_cores_per_node"


def test_600_interrupts_on_256_cpus_are_cheap() -> None:
    machine = state([(f"{i},{i + 128}", i // 64, "") for i in range(128)])
    machine["confinement"]["irqs"] = [
        {"irq": i, "name": f"mlx5_comp{i}", "affinity": "0-255", "effective": str(i % 256)} for i in range(600)
    ]
    start = time.process_time()
    for _ in range(10):
        found = cpu_isolation.decide(options(), machine)
    assert (time.process_time() - start) / 10 < 0.05
    assert len(found.steps) == 3
    assert all(len(s.before) < 200 for s in found.steps)
