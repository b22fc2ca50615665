"""Firmware settings: the tools' tables, what is decided, and the module against a card that behaves like one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import host_states
import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils import mlxconfig
from ansible_collections.nearmetal.rack.plugins.module_utils.capabilities import nic_firmware
from ansible_collections.nearmetal.rack.plugins.module_utils.host import (
    HostError,
    Missing,
    Result,
    SnapshotHost,
)
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.firmware import observe_firmware
from ansible_collections.nearmetal.rack.plugins.modules import nic_firmware as module
from hypothesis import given
from hypothesis import strategies as st

PORT0, PORT1 = "0000:17:00.0", "0000:17:00.1"
FACTORY = {"NUM_OF_VFS": ("8", "8", "8"), "SRIOV_EN": ("False(0)", "False(0)", "False(0)"),
           "NUM_OF_VFS_VALID": ("True(1)",) * 3, "ATS_ENABLED": ("False(0)",) * 3}  # fmt: skip


def table(values: dict[str, tuple[str, ...]], columns: Sequence[str] = ("Default", "Current", "Next Boot")) -> str:
    """As the tools print it, the modified rows starred."""
    head = "Device #1:\n----------\n\nDevice type:    ConnectX7\nName:           MCX755106AS-HEA_Ax\nDevice:         0000:17:00.0\n\n"
    rows = [
        ("*" if len(row) == 3 and row[1] != row[2] else " ") + "       " + name.ljust(35) + " "
        + "".join(v.ljust(15) + " " for v in row)
        for name, row in values.items()
    ]  # fmt: skip
    return head + "Configurations:".ljust(45) + "".join(c.ljust(16) for c in columns) + "\n" + "\n".join(rows) + "\n"


# --- the tables


def test_three_columns_and_rows_that_overflow(samples: Path) -> None:
    text = (samples / "mlxconfig" / "three-column-and-overflow-rows.txt").read_text()
    (card,) = mlxconfig.parse(text)
    assert card.values["MEMIC_SIZE_LIMIT"] == ("_256KB(1)",) * 3
    assert card.values["PCI_ATOMIC_MODE"] == ("PCI_ATOMIC_DISABLED_EXT_ATOMIC_ENABLED(0)",) * 3


def test_next_boot_alone(samples: Path) -> None:
    (card,) = mlxconfig.parse((samples / "mlxconfig" / "cx5-mcx516a-text-next-boot-only.txt").read_text())
    assert (card.kind, card.name) == ("ConnectX5", "MCX516A-CDA_Ax")
    assert card.values["NUM_OF_VFS"] == (None, None, "6")
    assert card.values["SRIOV_EN"].next == "True(1)"


def test_json(samples: Path) -> None:
    (card,) = mlxconfig.parse_json(json.loads((samples / "mlxconfig" / "json-shape.json").read_text()))
    assert card.values["NUM_OF_VFS"] == ("8", "16", "16")
    assert mlxconfig.parse_json({"Device #1": {"tlv_configuration": {"A": {"next_value": "N/A"}}}})[0].values["A"] == (None,) * 3


def test_starred_and_read_only_rows_and_two_devices() -> None:
    one = table({"A_B": ("1", "1", "2")})
    two = table({"A_B": ("1", "1", "1")}).replace("        A_B", "RO      A_B").replace("Device #1", "Device #2")
    cards = mlxconfig.parse(one + two)
    assert [c.values["A_B"].next for c in cards] == ["2", "1"]
    assert mlxconfig.parse("-E- Failed to open the device\n") == []


@pytest.mark.parametrize(
    ("asked", "printed", "is_same"),
    [
        (8, "18", False), (8, "8", True), (18, "8", False), (16, "0x10", True), ("16", "16", True),
        (True, "True(1)", True), (True, "1", True), (False, "False(0)", True), (True, "False(0)", False),
        (1, "True(1)", True), ("BALANCED", "BALANCED(0)", True), ("balanced(0)", "BALANCED(0)", True),
        ("BALANCE", "BALANCED(0)", False), (0, "BALANCED(0)", True), (8, None, False), ("_256KB", "_256KB(1)", True),
    ],
)  # fmt: skip
def test_values_are_compared_whole(asked: Any, printed: str | None, is_same: bool) -> None:
    """stackhpc's role asks by the pattern NUM_OF_VFS.*?8, which 18 satisfies."""
    assert mlxconfig.same(asked, printed) is is_same


NAMES = st.from_regex(r"[A-Z][A-Z0-9_]{0,60}", fullmatch=True).filter(lambda n: n != "RO")
VALUES = st.one_of(st.integers(0, 2**31).map(str), st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,50}\([0-9]{1,3}\)", fullmatch=True))


@host_states.unhurried
@given(st.dictionaries(NAMES, st.tuples(VALUES, VALUES, VALUES), min_size=1))
def test_any_table_comes_back(values: dict[str, tuple[str, str, str]]) -> None:
    (card,) = mlxconfig.parse(table(values))
    assert {name: tuple(value) for name, value in card.values.items()} == values


# --- deciding


def options(**given: Any) -> dict[str, Any]:
    return {"settings": {}, "cards": [], "fit_vfs": False, "tool": "auto", "load": "auto", "sriov": None, **given}


def state(values: Any = None, error: str = "", tool: str = "mstconfig", lockdown: str = "none", **more: Any) -> Any:
    made = host_states.state()
    made["pci"] = [
        {"address": a, "vendor": "0x15b3", "class": "0x020000", "physfn": "", "driver": "mlx5_core"}
        for a in (PORT0, PORT1)
    ]
    names, rows = ("default", "current", "next"), FACTORY if values is None else values
    columns = {n: dict(zip(names, v, strict=True)) for n, v in rows.items()}
    made["firmware"] = {a: {"tool": tool, "values": columns, "error": error} for a in (PORT0, PORT1)}
    made["kernel"] = {**made["kernel"], "lockdown": lockdown, "boot_id": "b2"}
    made["last_reboot"] = None
    return {**made, **more}


def test_one_card_one_step_though_it_has_two_ports() -> None:
    decided = nic_firmware.decide(options(settings={"NUM_OF_VFS": 16, "SRIOV_EN": True}), state())
    (step,) = decided.steps
    assert (step.key, step.before, step.after) == ("0000:17:00", "NUM_OF_VFS=8 SRIOV_EN=False(0)", "NUM_OF_VFS=16 SRIOV_EN=1")
    assert step.disruption == "power_cycle"
    assert decided.call.args["cards"] == [{"address": PORT0, "settings": {"NUM_OF_VFS": 16, "SRIOV_EN": True}, "reset": False}]


def test_as_wanted_is_nothing_to_do() -> None:
    assert nic_firmware.decide(options(settings={"NUM_OF_VFS": 8, "SRIOV_EN": False}), state()) == nic_firmware.Decision()


def test_ports_with_different_numbers_get_the_larger_one() -> None:
    """sriov-network-operator#218: each port's turn took away the other's, with a reboot each time."""
    cards = [{"address": PORT0, "settings": {"NUM_OF_VFS": 4}}, {"address": PORT1, "settings": {"NUM_OF_VFS": 12}}]
    (step,) = nic_firmware.decide(options(cards=cards), state()).steps
    assert step.after == "NUM_OF_VFS=12"
    there = {**FACTORY, "NUM_OF_VFS": ("8", "12", "12")}
    assert not nic_firmware.decide(options(cards=cards), state(there)).steps
    cards[0]["settings"] = cards[1]["settings"] = {"LINK_TYPE_P1": 1}
    cards = [{"address": PORT0, "settings": {"ATS_ENABLED": True}}, {"address": PORT1, "settings": {"ATS_ENABLED": False}}]
    (problem,) = nic_firmware.decide(options(cards=cards), state()).problems
    assert "firmware settings are per card" in problem.message + problem.fix


def test_numbers_of_vfs_fit_what_sriov_asks() -> None:
    sriov = {"pfs": [{"pf": {"address": PORT0}, "vfs": 4}, {"pf": {"address": PORT1}, "vfs": 12}]}
    (step,) = nic_firmware.decide(options(fit_vfs=True, sriov=sriov), state()).steps
    assert step.after == "NUM_OF_VFS=12 SRIOV_EN=1"
    (step,) = nic_firmware.decide(options(fit_vfs=True, sriov=sriov, settings={"NUM_OF_VFS": 16}), state()).steps
    assert "NUM_OF_VFS=16" in step.after


def test_set_but_not_loaded_waits_and_is_not_repeated_for_ever() -> None:
    """sriov-network-operator#449: a warm reboot did not load the configuration."""
    asked = options(settings={"NUM_OF_VFS": 16})
    pending = {**FACTORY, "NUM_OF_VFS": ("8", "8", "16")}
    decided = nic_firmware.decide(asked, state(pending))
    (step,) = decided.steps
    assert step.before == "NUM_OF_VFS=8, set but not loaded" and decided.call is None
    assert step.after == nic_firmware.decide(asked, state()).steps[0].after, "the same purpose before and after it is set"
    note = {"boot_id": "b1", "reason": "", "wanted": f"{step.id}={step.after}"}
    (problem,) = nic_firmware.decide(asked, state(pending, last_reboot=note)).problems
    assert "power cycled for this" in problem.message and problem.kind == "host"
    assert nic_firmware.decide(asked, state(pending, last_reboot={**note, "boot_id": "b2"})).steps, "still to come"
    assert nic_firmware.decide(asked, state(last_reboot=note)).steps, "taken back by somebody since: may be done again"


def test_a_card_that_does_not_say_what_is_in_force_is_believed() -> None:
    told = {"NUM_OF_VFS": (None, None, "16")}
    assert not nic_firmware.decide(options(settings={"NUM_OF_VFS": 16}), state(told)).steps


def fabric(**port: Any) -> dict[str, Any]:
    pf = {"address": PORT0, "serial": "MT1", "mac": "b8:3f:d2:00:00:01", "netdev": "ens3f0np0", "master": "",
          "addresses": [], "vfs": []}  # fmt: skip
    return {"pfs": [{**pf, **port}], "management": ["ens3f0np0"] if port.get("netdev") == "mgmt" else []}


@pytest.mark.parametrize(
    ("port", "disruption"),
    [({}, "traffic"), ({"master": "bond0"}, "power_cycle"), ({"addresses": ["10.0.0.1/24"]}, "power_cycle"),
     ({"vfs": [{}]}, "power_cycle")],
)
def test_a_card_that_nobody_uses_is_reset(port: dict[str, Any], disruption: str) -> None:
    found = nic_firmware.decide(options(settings={"NUM_OF_VFS": 16}), state(fabric=fabric(**port)))
    assert [s.disruption for s in found.steps] == [disruption]
    assert found.call.args["cards"][0]["reset"] is (disruption == "traffic")


def test_a_card_by_its_serial() -> None:
    cards = [{"serial": "mt1", "settings": {"NUM_OF_VFS": 16}}]
    assert nic_firmware.decide(options(cards=cards), state(fabric=fabric())).steps
    (problem,) = nic_firmware.decide(options(cards=[{**cards[0], "serial": "MT9"}]), state(fabric=fabric())).problems
    assert problem.value == "MT9" and "it has 0000:17:00" in problem.message


def test_lockdown_is_named_as_the_cause() -> None:
    """mstflint#1371."""
    refused = state({}, "mstconfig: -E- Failed to open the device", lockdown="integrity")
    (problem,) = nic_firmware.decide(options(settings={"NUM_OF_VFS": 16}), refused).problems
    assert "locked down (integrity)" in problem.message and "Secure Boot" in problem.fix


def test_no_tool_and_no_such_setting() -> None:
    (problem,) = nic_firmware.decide(options(settings={"NUM_OF_VFS": 16}), state({}, "neither", tool="")).problems
    assert "install mstflint" in problem.fix
    (problem,) = nic_firmware.decide(options(settings={"NUM_OF_VF": 16}), state()).problems
    assert problem.value == "NUM_OF_VF" and "did you mean NUM_OF_VFS" in problem.fix


def test_intent_that_makes_no_sense() -> None:
    found = nic_firmware.problems(options(settings={"num_of_vfs": 8, "A": [1]}, cards=[{"settings": {}}]))
    assert [p.variable for p in found] == ["nic_firmware_settings", "nic_firmware_settings", "nic_firmware_cards"]


# --- the module


class Card:
    """A host with one card. loads: whether a reset brings values into force."""

    live = True

    def __init__(self, tools: tuple[str, ...] = ("mstconfig", "mstfwreset"), loads: bool = True, refuses: str = "") -> None:
        self.values = {name: list(row) for name, row in FACTORY.items()}
        self.tools, self.loads, self.refuses = tools, loads, refuses
        self.ran: list[str] = []

    def run(self, argv: Sequence[str], timeout: float = 0) -> Result:
        if argv[0] not in self.tools:
            raise Missing(argv[0], "command not found")
        self.ran.append(" ".join(argv))
        if argv[-1] == "q":
            return Result(0, table({n: tuple(r) for n, r in self.values.items()}), "")
        if "set" in argv:
            for word in argv[argv.index("set") + 1 :]:
                name, _equals, value = word.partition("=")
                if name == self.refuses:
                    return Result(3, "", f"-E- Failed to set {name}: not allowed\n")
                self.values[name][2] = {"SRIOV_EN": {"1": "True(1)", "0": "False(0)"}}.get(name, {}).get(value, value)
            return Result(0, "Applying... Done!\n", "")
        if self.loads:
            for row in self.values.values():
                row[1] = row[2]
        return Result(0, "", "")


def converge(card: Card, settings: dict[str, Any], reset: bool = False, check: bool = False, tool: str = "auto") -> dict[str, Any]:
    params = {"cards": [{"address": PORT0, "settings": settings, "reset": reset}], "tool": tool}
    return module.converge(card, params, check)  # type: ignore[arg-type]


def test_sets_what_differs_and_says_what_waits() -> None:
    card = Card()
    done = converge(card, {"NUM_OF_VFS": 16, "ATS_ENABLED": False})
    assert card.ran[1] == f"mstconfig -d {PORT0} -y set NUM_OF_VFS=16"
    assert done["changed"] and done["pending"] == {PORT0: ["NUM_OF_VFS"]}
    assert done["diff"][0]["before"] == "ATS_ENABLED=False(0)\nNUM_OF_VFS=8\n"
    again = converge(card, {"NUM_OF_VFS": 16})
    assert not again["changed"] and again["pending"] == {PORT0: ["NUM_OF_VFS"]}, "the reboot is the loop's"


def test_reset_brings_it_into_force_and_is_checked() -> None:
    card = Card()
    done = converge(card, {"SRIOV_EN": True}, reset=True)
    assert f"mstfwreset -d {PORT0} -l 3 -y reset" in card.ran
    assert done["changed"] and not done["pending"]
    assert not converge(card, {"SRIOV_EN": True}, reset=True)["changed"]
    with pytest.raises(HostError, match="reset, but not in force: SRIOV_EN is False"):
        converge(Card(loads=False), {"SRIOV_EN": True}, reset=True)


def test_check_mode_says_the_same_and_does_nothing() -> None:
    card = Card()
    dry = converge(card, {"NUM_OF_VFS": 16}, reset=True, check=True)
    assert len(card.ran) == 1
    real = converge(card, {"NUM_OF_VFS": 16}, reset=True)
    assert (dry["changed"], dry["diff"], dry["cards"]) == (real["changed"], real["diff"], real["cards"])


def test_the_tools_own_word_is_passed_on() -> None:
    with pytest.raises(HostError, match="-E- Failed to set NUM_OF_VFS: not allowed"):
        converge(Card(refuses="NUM_OF_VFS"), {"NUM_OF_VFS": 16})
    with pytest.raises(HostError, match="the card has no setting NO_SUCH"):
        converge(Card(), {"NO_SUCH": 1})


def test_the_other_tool_where_the_first_is_missing() -> None:
    card = Card(tools=("mlxconfig", "mlxfwreset"))
    assert converge(card, {"NUM_OF_VFS": 16}, reset=True)["changed"]
    assert card.ran[2].startswith("mlxfwreset")
    with pytest.raises(HostError, match="neither of mstconfig, mlxconfig"):
        converge(Card(tools=()), {"NUM_OF_VFS": 16})
    with pytest.raises(HostError, match="neither of mstconfig is"):
        converge(card, {"NUM_OF_VFS": 16}, tool="mstconfig")


# --- observing


def test_observed_from_what_the_probe_ran() -> None:
    pci: Any = state()["pci"]
    said = {f"mstconfig -d {PORT0} -e q": (0, table(FACTORY), ""), f"mstconfig -d {PORT1} -e q": (1, "", "-E- locked\n"),
            f"mlxconfig -d {PORT1} -e q": (127, "", "no")}  # fmt: skip
    found = observe_firmware(SnapshotHost({}, commands=said), pci)
    assert found is not None
    assert found[PORT0]["values"]["NUM_OF_VFS"] == {"default": "8", "current": "8", "next": "8"}
    assert found[PORT1] == {"tool": "", "values": {}, "error": "mstconfig: -E- locked"}
    assert observe_firmware(SnapshotHost({}), pci) is None
