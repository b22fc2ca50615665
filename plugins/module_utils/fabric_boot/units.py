# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two units: VFs and eswitch before the network, gate and drivers of the VFs after it. Pure.

Sources: systemd.unit(5), systemd.special(7) (network-pre.target is passive: who orders itself before it pulls it in).
"""

from __future__ import annotations

from typing import Dict, Tuple

from .program import PATH, PYTHON, digest

FOLDER = "/etc/systemd/system"
EARLY, LATE = "nearmetal-fabric-early.service", "nearmetal-fabric-late.service"
NAMES = (EARLY, LATE)
LINKS = (
    "%s/multi-user.target.wants/%s" % (FOLDER, EARLY),
    "%s/multi-user.target.wants/%s" % (FOLDER, LATE),
    "%s/kubelet.service.requires/%s" % (FOLDER, LATE),
)
"""What `systemctl enable` makes of the two."""
READY = "/run/nearmetal/fabric-ready"
STATUS = "/run/nearmetal/fabric-status.json"
EARLY_S = 300
"""Longer than the waits of one early run; making 64 VFs may take a minute."""

_HEAD = "# Written by nearmetal: changes are lost. Program: sha256 %s\n"

_EARLY = """[Unit]
Description=nearmetal: VFs and eswitch modes of the fabric, before the network
DefaultDependencies=no
Wants=network-pre.target
Before=network-pre.target shutdown.target
Conflicts=shutdown.target
After=local-fs.target systemd-udevd.service systemd-udev-trigger.service systemd-modules-load.service sys-kernel-debug.mount
RequiresMountsFor=/usr/local/lib/nearmetal /etc/nearmetal /var/lib/nearmetal

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={program} early
TimeoutStartSec={early_s}

[Install]
WantedBy=multi-user.target
"""

_LATE = """[Unit]
Description=nearmetal: the fabric is as wanted, before the node takes work
Wants=network-online.target {early}
After=network-online.target {early} openvswitch-switch.service ovs-vswitchd.service
Before=kubelet.service libvirtd.service virtqemud.service
RequiresMountsFor=/usr/local/lib/nearmetal /etc/nearmetal /var/lib/nearmetal

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={program} late
ExecStopPost=/bin/rm -f {ready}
TimeoutStartSec={late_s}

[Install]
WantedBy=multi-user.target
RequiredBy=kubelet.service
"""


def files(lag_timeout: int) -> Dict[str, Tuple[str, int]]:
    """{path: (text, mode)}. lag_timeout: seconds that the gate may wait."""
    words = {
        "program": "%s %s" % (PYTHON, PATH), "early": EARLY, "ready": READY, "early_s": EARLY_S, "late_s": 300 + 2 * lag_timeout,
    }  # fmt: skip
    head = _HEAD % digest()
    return {
        "%s/%s" % (FOLDER, EARLY): (head + _EARLY.format(**words), 0o644),
        "%s/%s" % (FOLDER, LATE): (head + _LATE.format(**words), 0o644),
    }
