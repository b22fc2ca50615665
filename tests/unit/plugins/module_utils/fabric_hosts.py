"""Hosts and intents for the tests of the fabric: the simulator, options as the roles make them, a clock that runs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.nearmetal.rack.plugins.module_utils.fabric import decide, doer, running
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.document import observe
from ansible_collections.nearmetal.rack.plugins.plugin_utils.intent import read_intent
from simulated import PF0, PF1, Sim

BOND = {"name": "bond0", "pfs": [{"address": PF0}, {"address": PF1}]}


def options(**variables: Any) -> dict[str, Any]:
    """Options of the roles from variables, as the loop has them; fails where they are malformed."""
    intent, found = read_intent(variables, lambda value: value)
    assert not found, found
    return {name: intent.get(name) for name in ("sriov", "vf_lag", "nic_firmware", "iommu")}


def pf(address: str = PF0, vfs: int | None = 2, **more: Any) -> dict[str, Any]:
    """An entry of sriov_pfs."""
    return {"pf": {"address": address}, **({} if vfs is None else {"vfs": vfs}), **more}


def lag(*pfs: dict[str, Any], **bond: Any) -> dict[str, Any]:
    """Options of a VF LAG of the first card, two VFs each by default."""
    return options(sriov_pfs=list(pfs) or [pf(PF0), pf(PF1)], vf_lag_bonds=[{**BOND, **bond}])


class Rack:
    """A simulated host on which modules run; `log` has what was done."""

    def __init__(self, folder: Path | None = None, iommu: bool = True, **variant: Any) -> None:
        self.sim = Sim(folder or Path(tempfile.mkdtemp()), **variant)
        self.host = self.sim.host
        self.log: list[str] = []
        self.before: Callable[[], None] = lambda: None
        if iommu:
            with self.sim.machine.session() as state:
                state["boot"]["iommu"] = True
                self.sim.machine.files.changed()

    def state(self) -> Any:
        return observe(self.host)

    def fabric(self) -> Any:
        return self.state()["fabric"]

    def choose(self, capability: str, wanted: dict[str, Any]) -> decide.Choice:
        return decide.choose(capability, wanted, self.state())

    def doer(self) -> doer.Doer:
        def progress(text: str) -> None:
            self.before()
            self.log.append(text)

        return doer.Doer(self.host, progress, sleep=self.sim.advance, clock=lambda: self.sim.machine.state["now"])

    def run(self, capability: str, wanted: dict[str, Any], check: bool = False) -> dict[str, Any]:
        """What the module does, called as the planner calls it."""
        params = {"root": "/", **decide.call_arguments(capability, wanted, self.state())}
        return running.carry_out(capability, self.host, params, check, observe, doer=self.doer())

    def kinds(self, capability: str, wanted: dict[str, Any]) -> list[str]:
        """Kinds of the planned operations, repetitions left out."""
        found: list[str] = []
        for op in self.choose(capability, wanted).ops:
            if not found or found[-1] != op.kind:
                found.append(op.kind)
        return found
