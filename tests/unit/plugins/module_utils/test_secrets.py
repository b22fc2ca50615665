"""Keys and passwords in the files of network managers do not get into documents."""

from __future__ import annotations

from pathlib import Path

import pytest
import trees
from ansible_collections.nearmetal.rack.plugins.module_utils import secrets
from ansible_collections.nearmetal.rack.plugins.module_utils.host import FileHost
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.document import observe

from nearmetal.scrub import Scrubber

KEYFILE = """[connection]
id=office
interface-name=wlan0
[wifi-security]
key-mgmt=wpa-psk
psk=hunter2 with blanks
wep-key0=hunter2
[802-1x]
identity=me
password=hunter2
private-key-password = hunter2
[wireguard]
private-key=hunter2
[gsm]
pin=hunter2
[bond]
mode=802.3ad
"""


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/etc/NetworkManager/system-connections/a.nmconnection", KEYFILE),
        ("/etc/netplan/01.yaml", 'network:\n  wifis:\n    w:\n      access-points:\n        net:\n          password: "hunter2"\n'),
        ("/etc/netplan/01.yaml", "    auth:\n      key-management: eap\n      client-key-password: hunter2\n"),
        ("/etc/network/interfaces", "iface wlan0 inet dhcp\n  wpa-ssid net\n  wpa-psk hunter2\n"),
        ("/etc/sysconfig/network-scripts/ifcfg-w", "DEVICE=w\nWPA_PSK='hunter2'\nIEEE_8021X_PASSWORD=hunter2\n"),
        ("/etc/systemd/network/wg.netdev", "[WireGuard]\nPrivateKey=hunter2\nPresharedKey = hunter2\n"),
    ],
)  # fmt: skip
def test_hidden(path: str, text: str) -> None:
    shown = secrets.hide(path, text)
    assert "hunter2" not in shown and secrets.HIDDEN in shown
    assert len(shown.splitlines()) == len(text.splitlines())


def test_what_is_no_secret_stays() -> None:
    shown = secrets.hide("/etc/NetworkManager/system-connections/a", KEYFILE)
    for line in ("id=office", "interface-name=wlan0", "identity=me", "mode=802.3ad"):
        assert line in shown.splitlines()
    assert secrets.hide("/etc/default/grub", "password=x\n") == "password=x\n", "not a network manager's"


def test_documents_and_captures_have_none(tmp_path: Path) -> None:
    path = "/etc/NetworkManager/system-connections/a.nmconnection"
    root = trees.build(files={path: KEYFILE}).write(tmp_path)
    state = observe(FileHost(str(root)))
    assert "hunter2" not in str(state)
    assert "hunter2" not in Scrubber().text(path, KEYFILE)
