"""BMCs and Ansible: options, documents of a bulk read, and what must not be shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.nearmetal.rack.plugins.plugin_utils import bmcs, intent
from ansible_collections.nearmetal.rack.plugins.plugin_utils.redfish import reading

SECRET = "Tr0ub4dor"


def same(value: Any) -> Any:
    return value


def test_options_of_the_host_and_of_the_task() -> None:
    variables = {"bios_baseuri": "https://a", "bios_username": "u", "bios_password": SECRET, "bios_job_timeout": "60", "other": 1}
    found = bmcs.options_of({"username": "task", "settings": {"smt": False}}, variables, same, ("settings", "job_timeout"))
    assert (found["baseuri"], found["username"], found["password"]) == ("https://a", "task", SECRET)
    assert found["validate_certs"] is True and found["timeout"] == 30 and found["job_timeout"] == 60
    assert found["settings"] == {"smt": False}


def test_a_bad_option_does_not_show_the_password() -> None:
    with pytest.raises(AnsibleActionFail) as caught:
        bmcs.options_of({"timeout": SECRET, "password": SECRET}, {}, same, ())
    assert SECRET not in str(caught.value) and "timeout" in str(caught.value)


@pytest.mark.parametrize("variables, wanted", [
    ({}, False), ({"bios_baseuri": "https://a"}, False), ({"bios_baseuri": "https://a", "bios_preset": "storage_client"}, True),
    ({"bios_baseuri": "https://a", "bios_settings": {"smt": False}}, True),
    ({"bios_baseuri": "https://a", "bios_settings": {"smtt": False}}, False), ({"bios_settings": {"smt": False}}, False),
    ({"bios_baseuri": "https://a", "bios_settings": {"smt": False}, "nearmetal_root": "/tree"}, False),
])  # fmt: skip
def test_whose_bmc_is_read(variables: dict[str, Any], wanted: bool) -> None:
    assert (bmcs.host_options(variables, same) is not None) == wanted


def test_documents_are_kept_with_one_registry(tmp_path: Path) -> None:
    one, two, bad = reading.empty("a"), reading.empty("b"), reading.empty("c", "lost")
    one["registry"] = two["registry"] = {"Smt": {"type": "Enumeration"}}
    bmcs.save(str(tmp_path), {"one": one, "../two": two, "bad": bad})
    assert len(list(tmp_path.glob(bmcs.REGISTRY + "*"))) == 1 and len(list(tmp_path.iterdir())) == 4
    assert bmcs.load(str(tmp_path), "one") == one and bmcs.load(str(tmp_path), "../two") == two
    assert bmcs.load(str(tmp_path), "bad") == bad
    assert bmcs.load(str(tmp_path), "other") is None and bmcs.load("", "one") is None
    kept = bmcs.kept(one)
    assert kept and kept["registry"] is None and one["registry"]


def test_reading_beside_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bmcs, "read_here", lambda options: reading.empty(options["baseuri"]))
    with bmcs.Reading({"baseuri": "https://a"}) as found:
        pass
    document = found.result()
    assert document and document["uri"] == "https://a"
    with bmcs.Reading(None) as nothing:
        assert nothing.result() is None


@pytest.mark.parametrize("variables", [
    {"bios_pasword": SECRET}, {"bios_passord": SECRET}, {"bios_token": SECRET}, {"bios_pasword": {"is": SECRET}},
])  # fmt: skip
def test_problems_do_not_show_secrets(variables: dict[str, Any]) -> None:
    _intent, found = intent.read_intent({"bios_baseuri": "https://a", **variables}, same)
    assert found
    assert SECRET not in str([p.as_dict() for p in found])


def test_other_values_are_shown() -> None:
    _intent, found = intent.read_intent({"bios_setings": "here"}, same)
    assert found[0].value == "here" and "bios_settings" in found[0].fix


def test_passwords_of_the_bios_are_masked() -> None:
    masked = reading.hidden({"SetupPassword": "abc", "AdminPassword_0117": None, "SysPassphrase": "", "Smt": "Enabled"})
    assert masked == {"SetupPassword": "***", "AdminPassword_0117": None, "SysPassphrase": "", "Smt": "Enabled"}
