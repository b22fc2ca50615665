"""BIOS settings over Ansible and the command line: this machine as the host, BMCs of several vendors beside it.

Nothing is written on this machine, and it is never rebooted: the BMC's model boots by itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nearmetal.bmc import captured
from nearmetal.bmc.machine import Machine
from nearmetal.bmc.server import BmcServer

TOP = Path(__file__).resolve().parents[2]
PASSWORD = "Tr0ub4dor-and-3"


class Rack:
    """BMCs by host name, an inventory with this machine under these names, and commands on it."""

    def __init__(self, folder: Path, vendors: dict[str, str]) -> None:
        self.folder = folder
        self.bmcs: dict[str, BmcServer] = {}
        for host, vendor in vendors.items():
            (folder / host).mkdir(parents=True)
            self.bmcs[host] = BmcServer(Machine.made_up(vendor), password=PASSWORD, folder=folder / host).start()
        self.inventory = folder / "hosts.yml"
        self.env = dict(
            os.environ, NEARMETAL_STATE_DIR=str(folder / "state"), PYTHONPATH=str(TOP), ANSIBLE_NOCOLOR="1",
            ANSIBLE_COLLECTIONS_PATH=str(TOP / ".cache" / "collections"),
        )  # fmt: skip
        self.intend({"bios_settings": {"smt": False}})

    def intend(self, variables: dict[str, Any], **hosts: dict[str, Any]) -> None:
        """Variables of all hosts, and of some."""
        every = {
            name: {
                "ansible_connection": "local", "ansible_python_interpreter": sys.executable, "bios_baseuri": bmc.url,
                "bios_ca_path": bmc.ca_path, "bios_username": "admin", "bios_password": PASSWORD, "bios_timeout": 5,
                **variables, **hosts.get(name, {}),
            }
            for name, bmc in self.bmcs.items()
        }  # fmt: skip
        self.inventory.write_text(yaml.safe_dump({"all": {"hosts": every}}))

    def run(self, *words: str) -> tuple[int, str]:
        return self._run([sys.executable, "-m", "nearmetal", words[0], "-i", str(self.inventory), *words[1:]])

    def ansible(self, program: str, *words: str) -> tuple[int, str]:
        return self._run([str(Path(sys.executable).with_name(program)), "-i", str(self.inventory), *words])

    def plan(self) -> tuple[int, dict[str, Any]]:
        code, text = self.run("plan", "--json")
        assert "{" in text, text
        return code, json.loads(text[text.index("{") : text.rindex("}") + 1])

    def _run(self, argv: list[str]) -> tuple[int, str]:
        done = subprocess.run(argv, env=self.env, cwd=TOP, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert PASSWORD not in done.stdout + done.stderr
        return done.returncode, done.stdout + done.stderr

    def leaks(self) -> list[Path]:
        """Files of the state folder in which the password stands."""
        return [p for p in (self.folder / "state").rglob("*") if p.is_file() and PASSWORD.encode() in p.read_bytes()]

    def patches(self) -> int:
        return sum(1 for bmc in self.bmcs.values() for method, _p, status in bmc.requests if method == "PATCH" and status < 400)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Any]:
    made: list[Rack] = []

    def rack(**vendors: str) -> Rack:
        made.append(Rack(tmp_path, vendors))
        return made[-1]

    yield rack
    for one in made:
        for bmc in one.bmcs.values():
            bmc.stop()


def module(rack: Rack, options: dict[str, Any], name: str = "bios_settings", *words: str) -> dict[str, Any]:
    """Result of one task on host a."""
    argv = ("a", "-m", f"nearmetal.rack.{name}", *(("-a", json.dumps(options)) if options else ()), *words)
    _code, text = rack.ansible("ansible", *argv)
    assert "=> {" in text, text
    return dict(json.loads(text[text.index("=> {") + 3 : text.rindex("}") + 1]))


def test_plan_apply_and_after_the_boot(make: Any) -> None:
    rack = make(h="hpe", d="dell", l="lenovo")
    code, plan = rack.plan()
    assert code == 2, plan
    assert plan["summary"]["reboots"] == 3
    assert {s["key"] for s in plan["steps"]} == {"smt", "reboot"}
    assert all("false" in s["after"] or "off" in s["after"] for s in plan["steps"] if s["key"] == "smt"), plan["steps"]
    assert not rack.patches()

    code, text = rack.run("apply", "--yes", "--no-reboot")
    assert rack.patches() == 3, text
    assert all(bmc.machine.waiting for bmc in rack.bmcs.values())
    states = list((rack.folder / "state").rglob("*.before.json"))
    assert states and all(json.loads(p.read_text())["bmc"]["registry"] is None for p in states)
    assert rack.leaks() == []

    code, plan = rack.plan()  # a controller that was killed here starts like this
    assert code == 2 and plan["summary"]["reboots"] == 3
    assert all("submitted" in s["before"] for s in plan["steps"] if s["key"] == "smt"), plan["steps"]
    rack.run("apply", "--yes", "--no-reboot")
    assert rack.patches() == 3, "what is pending was submitted again"

    for bmc in rack.bmcs.values():
        bmc.machine.boot_up()
    code, plan = rack.plan()
    assert (code, plan["steps"]) == (0, []), plan
    code, text = rack.run("apply", "--yes")
    assert code == 0 and "0 modules run" in text, text
    assert all(bmc.service.sessions == 0 for bmc in rack.bmcs.values())


def test_five_bmcs_one_dead(make: Any) -> None:
    rack = make(a="hpe", b="dell", c="lenovo", d="supermicro", e="nvidia_dgx")
    rack.intend({"bios_settings": {"turbo": True}}, c={"bios_baseuri": "https://127.0.0.1:1"})
    code, plan = rack.plan()
    assert code == 1
    bad = {host: entry["problems"] for host, entry in plan["hosts"].items() if entry["problems"]}
    assert bad.keys() == {"c"}, bad
    assert bad["c"][0]["variable"] == "bios_baseuri" and bad["c"][0]["kind"] == "host"
    assert "Connection refused" in bad["c"][0]["message"]


def test_role_alone(make: Any) -> None:
    rack = make(a="hpe")
    code, text = rack.ansible("ansible-playbook", "nearmetal.rack.bios", "--check", "--diff")
    assert code == 0 and "changed=1" in text and "+" in text, text
    assert not rack.patches()
    code, text = rack.ansible("ansible-playbook", "nearmetal.rack.bios")
    assert code == 0 and rack.patches() == 1, text
    code, text = rack.ansible("ansible-playbook", "nearmetal.rack.bios")
    assert code == 0 and "changed=0" in text and rack.patches() == 1, text


def test_task_is_idempotent_with_any_interpreter(make: Any) -> None:
    rack = make(a="hpe")
    rack.intend({"ansible_python_interpreter": "/nowhere/python3"})
    asked = {"settings": {"smt": False}}
    checked = module(rack, asked, "bios_settings", "--check")
    assert checked["changed"] and checked["requested"] and not rack.patches()
    done = module(rack, asked)
    assert done["changed"] and done["pending"] == done["requested"] and done["reset_required"]
    again = module(rack, asked)
    assert not again["changed"] and again["reset_required"] and again["platform"] == "hpe"
    rack.bmcs["a"].machine.boot_up()
    after = module(rack, asked)
    assert not after["changed"] and not after["reset_required"]


def test_unknown_vendor_with_raw_attributes(make: Any) -> None:
    rack = make(a="hpe")
    machine = rack.bmcs["a"].machine
    name = next(e["AttributeName"] for e in machine.registry["Attributes"] if e["Type"] == "Enumeration")
    values = [v["ValueName"] for v in machine.entry(name)["Value"]]
    other = next(v for v in values if v != machine.current[name])
    object.__setattr__(machine.traits, "manufacturer", "Forge & Sons")
    try:
        done = module(rack, {"attributes": {name: other}})
        assert done["changed"] and machine.waiting == {name: other}, done
        refused = module(rack, {"attributes": {name: "Perhaps"}})
        assert name in refused["msg"] and values[0] in refused["msg"], refused
    finally:
        object.__setattr__(machine.traits, "manufacturer", "HPE")


def test_refusals_in_one_line(make: Any) -> None:
    rack = make(a="hpe")
    bmc = rack.bmcs["a"]
    wrong = module(rack, {"settings": {"smt": False}, "password": "wrong-Pa55word"})
    assert "refuses the login of admin" in wrong["msg"] and "wrong-Pa55word" not in json.dumps(wrong)
    untrusted = module(rack, {"settings": {"smt": False}, "ca_path": ""})
    assert "is not trusted" in untrusted["msg"] and "bios_ca_path" in untrusted["msg"]
    unknown = module(rack, {"settings": {"hyperthreding": False, "smtt": False}})
    assert "did you mean smt" in unknown["msg"], unknown
    bmc.faults.redirect = "https://elsewhere.example"
    redirected = module(rack, {"settings": {"smt": False}})
    assert "redirects /redfish/v1/ to https://elsewhere.example" in redirected["msg"]
    assert all("\n" not in r["msg"] for r in (wrong, untrusted, redirected))


def test_a_misspelt_password_is_not_shown(make: Any) -> None:
    rack = make(a="hpe")
    rack.intend({"bios_settings": {"smt": False}, "bios_pasword": PASSWORD})
    code, text = rack.run("validate")
    assert code == 65 and "bios_password" in text, text
    rack.intend({"bios_settings": {"smt": False}, "bios_password": {"not": PASSWORD}})
    code, text = rack.run("plan")
    assert code in (1, 65), text
    assert rack.leaks() == []


def test_validate_asks_no_bmc(make: Any) -> None:
    rack = make(a="hpe")
    code, text = rack.run("validate")
    assert code == 0, text
    assert rack.bmcs["a"].requests == []


def test_info_and_power(make: Any) -> None:
    rack = make(a="dell")
    info = module(rack, {}, "bmc_info")["bmc"]
    assert info["power_state"] == "On" and info["nics"][0]["firmware"] == "28.39.1002" and info["bmc_version"]
    off = module(rack, {"state": "off", "graceful": True}, "bmc_power")
    assert (off["changed"], off["power_state"]) == (True, "Off")
    assert not module(rack, {"state": "off"}, "bmc_power")["changed"]
    once = module(rack, {"state": "cycle", "boot_once": "Pxe"}, "bmc_power")
    assert once["changed"] and once["power_state"] == "On"
    wrong = module(rack, {"boot_once": "Floppy"}, "bmc_power")
    assert "Floppy" in wrong["msg"] and "Pxe" in wrong["msg"]


def test_capture_with_the_bmc(make: Any) -> None:
    rack = make(a="hpe", b="dell")
    out = rack.folder / "b.tgz"
    code, text = rack.run("capture", "b", "--bmc", "--out", str(out))
    assert code == 0, text
    with tarfile.open(out) as archive:
        names = [n for n in archive.getnames() if n.startswith("redfish/")]
        archive.extractall(rack.folder / "captured", [archive.getmember(n) for n in names], filter="data")
    assert "redfish/dell-Systems_System.Embedded.1_Bios.json" in names, names
    assert captured.load(rack.folder / "captured" / "redfish", "dell").current == rack.bmcs["b"].machine.current
    code, text = rack.run("capture", "b", "--bmc", "--out", str(rack.folder / "none" / "b.tgz"))
    assert code == 1, text
