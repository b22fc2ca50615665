"""Our small reader of YAML against the real one."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric_boot import miniyaml
from hypothesis import given
from hypothesis import strategies as st

PLAIN = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_.-]{0,8}", fullmatch=True)
WORDS = st.sampled_from(["a b", "10.0.0.1/24", "fe80::1/64", "#x", "it's"])
SCALARS = st.one_of(PLAIN, st.integers(-9, 99999), st.booleans(), st.none(), WORDS)
VALUES = st.recursive(
    SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(PLAIN, inner, max_size=3)), max_leaves=12
)


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


@given(st.dictionaries(PLAIN, VALUES, min_size=1, max_size=4), st.booleans())
def test_reads_what_the_real_one_writes(value: Any, flow: bool) -> None:
    text = yaml.safe_dump(value, default_flow_style=True if flow else None, width=1000)
    assert plain(miniyaml.load(text)) == yaml.safe_load(text)


EXAMPLE = """# made by hand
network:
  version: 2
  renderer: networkd   # the default
  ethernets:
    "eno1":
      match: {name: "eno*", macaddress: 'aa:bb:cc:00:11:22'}
      dhcp4: yes
      addresses:
      - 192.0.2.1/24
      - "2001:db8::1/64":
          lifetime: 0
      nameservers:
        addresses: [192.0.2.53,
                    192.0.2.54]
  bonds:
    bond0:
      interfaces:
        - eno1
        - eno2
"""


def test_netplan_as_people_write_it() -> None:
    found = miniyaml.load(EXAMPLE)
    assert plain(found) == yaml.safe_load(EXAMPLE)
    assert found["network"]["bonds"].lines == {"bond0": 17}
    assert found["network"]["ethernets"].lines == {"eno1": 6}


@pytest.mark.parametrize("text", ["a: &x 1", "a: *x", "a: !!int 1", "a: |\n  x\n", "a:\n\t- b", "a: [1", "a: {b}", "a: 'x", "a\nb: c"])
def test_what_is_not_understood_is_said(text: str) -> None:
    with pytest.raises(miniyaml.YamlError):
        miniyaml.load(text)


def test_nothing() -> None:
    assert miniyaml.load("# only a comment\n---\n") is None
