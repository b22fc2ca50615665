# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Benchmark guests against bare metal on this host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark_vm
short_description: Run a CPU benchmark in libvirt guests of several topologies and on bare metal
version_added: 0.1.0
description:
  - Boots one small guest for each scenario, once, from this host's own kernel and an initramfs made of busybox and
    stress-ng, and runs the benchmark in all of them and on bare metal in interleaved rounds.
  - Gathers evidence of where each run really ran. On emulated hosts that evidence is all that counts.
  - Leaves nothing behind. The guests are transient and tied to one connection to libvirt, which ends with the module,
    however it ends.
  - Called by the role M(nearmetal.rack.benchmark_vm), which has the defaults. The action plugin of the same name takes
    the options from the variables C(benchmark_vm_*) and writes the result on the controller; a task gives no options.
  - Everything is one module call, with virsh instead of the Python bindings of libvirt, because a round trip to a host
    costs more than most of what is done here, and the bindings are not installed everywhere.
requirements:
  - KVM, libvirt with QEMU, stress-ng, a static busybox
options:
  scenarios:
    description: Guests to compare.
    type: list
    elements: str
    choices: [matched_pinned, smt_hidden, cross_node, siblings_shuffled]
    required: true
  cores:
    description: Whole cores of each guest.
    type: int
    required: true
  cpus:
    description: CPUs to take the cores from (cpulist); empty for the isolated ones.
    type: str
    required: true
  memory_mb:
    description: Memory of each guest in MiB.
    type: int
    required: true
  hugepages:
    description: Whether guests take huge pages.
    type: str
    choices: [auto, always, never]
    required: true
  stressor:
    description: The stressor of stress-ng.
    type: str
    required: true
  stressor_args:
    description: Further arguments of stress-ng.
    type: list
    elements: str
    required: true
  workers:
    description: Parallel workers, 0 for one to a core.
    type: int
    required: true
  seconds:
    description: Length of one run.
    type: int
    required: true
  rounds:
    description: Rounds at least.
    type: int
    required: true
  max_rounds:
    description: Rounds at most.
    type: int
    required: true
  interval:
    description: Stop when the 95 % confidence interval of every ratio is narrower.
    type: float
    required: true
  boot_timeout:
    description: Seconds in which a guest must have started.
    type: int
    required: true
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
    support: full
    details: Says which guests would be compared, and starts none.
  diff_mode:
    description: Returns details on what has changed (or possibly needs changing in C(check_mode)), when in diff mode.
    support: none
author:
  - nearmetal contributors (@nearmetal)
"""

EXAMPLES = r"""
- name: Compare a matched guest with bare metal
  nearmetal.rack.benchmark_vm:
  vars:
    benchmark_vm_scenarios: [matched_pinned]
    benchmark_vm_seconds: 30
"""

RETURN = r"""
file:
  description: Where the result was written on the controller.
  returned: success, not in check mode
  type: str
scenarios:
  description: The sides that were compared, with their pins.
  returned: success
  type: list
  elements: dict
left_out:
  description: Scenarios that make no sense on this host, and evidence that could not be gathered, with the reason.
  returned: success
  type: list
  elements: str
"""

import os  # noqa: E402
import select  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
from typing import Any  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible_collections.nearmetal.rack.plugins.module_utils import bench_needs, bench_runner  # noqa: E402
from ansible_collections.nearmetal.rack.plugins.module_utils.bench_scenarios import SCENARIOS, BenchError  # noqa: E402
from ansible_collections.nearmetal.rack.plugins.module_utils.host import FileHost, HostError  # noqa: E402
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.document import observe  # noqa: E402

LEAST = {"cores": 1, "memory_mb": 64, "seconds": 1, "rounds": 1, "boot_timeout": 10, "workers": 0, "max_rounds": 0}
"""Smallest sensible values."""


def _spec() -> dict[str, Any]:
    words = {"type": "list", "elements": "str", "required": True}
    spec = {name: {"type": "int", "required": True} for name in LEAST}
    spec.update(
        scenarios=dict(words, choices=list(SCENARIOS)), stressor_args=words,
        cpus={"type": "str", "required": True}, stressor={"type": "str", "required": True},
        hugepages={"type": "str", "required": True, "choices": ["auto", "always", "never"]},
        interval={"type": "float", "required": True},
    )  # fmt: skip
    return spec


def _check(params: dict[str, Any]) -> None:
    for name, least in LEAST.items():
        if params[name] < least:
            raise BenchError("benchmark_vm_%s=%d: must be %d or more" % (name, params[name], least))
    if params["interval"] <= 0:
        raise BenchError("benchmark_vm_interval=%s: must be above 0, for example 0.05" % params["interval"])
    if not params["scenarios"]:
        raise BenchError("benchmark_vm_scenarios=[]: name at least one of %s" % ", ".join(SCENARIOS))


def _work(module: AnsibleModule) -> dict[str, Any]:
    _check(module.params)
    host = FileHost()
    options = bench_runner.Options(**module.params)
    state = observe(host, commands=False)
    if module.check_mode:
        bench_needs.find_tools(host)
        plan = bench_runner.make_plan(host, state, options)
        return {"scenarios": [s.as_result() for s in plan.sides], "left_out": plan.notes}
    results = bench_runner.run_benchmark(host, state, options)
    scenarios = [{k: v for k, v in s.items() if k != "domain_xml"} for s in results["scenarios"]]
    return {"results": results, "scenarios": scenarios, "left_out": results["unread"]}


def _end(*_args: Any) -> None:
    """Leave through every `finally`, undisturbed by further signals."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)
    sys.exit(1)


_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def _end_with_reader() -> None:
    """End this process when nobody is left to read its answer: the controller died or was stopped."""
    poll = select.poll()
    poll.register(1, 0)  # POLLERR and POLLHUP are always reported
    poll.poll()
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """See DOCUMENTATION."""
    module = AnsibleModule(argument_spec=_spec(), supports_check_mode=True)
    for number in _ENDING:
        signal.signal(number, _end)
    threading.Thread(target=_end_with_reader, daemon=True).start()
    try:
        module.exit_json(changed=False, **_work(module))
    except (BenchError, HostError) as err:
        module.fail_json(msg=str(err))


if __name__ == "__main__":
    main()
