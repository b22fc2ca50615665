#!/usr/bin/python
# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""VFs of network cards."""

from __future__ import annotations

DOCUMENTATION = r"""
module: sriov
short_description: Make VFs, give them drivers and settings
version_added: 0.2.0
description:
  - Brings the listed PFs to the wanted number of VFs, and their VFs to the wanted drivers and settings, while the host runs,
    and reads it back. The least disruptive way is taken. Only another number of VFs makes them anew, a new MAC starts the
    driver of that VF again, and all other settings disturb nothing.
  - For PFs of a bond that the card offloads, use M(nearmetal.rack.vf_lag), as a LAG needs its own order.
  - Bad values are found, all of them, before anything is touched.
options:
  pfs:
    description: The PFs. Those that are not listed are left alone.
    type: list
    elements: dict
    suboptions:
      pf:
        description: Which PF. All keys that are given must agree.
        type: dict
        required: true
        suboptions:
          address:
            description: PCI address (V(0000:08:00.0)), or that of the card without the function (V(0000:08:00)) together with
              a port.
            type: str
          serial:
            description: Serial number of the card, from its vital product data; together with a port.
            type: str
          mac:
            description: The port's permanent MAC address.
            type: str
          port:
            description: Port of the card, as the driver (V(p0)) or the kernel calls it. Never alone, as names change.
            type: str
      state:
        description: V(absent) takes all VFs away.
        type: str
        choices: [present, absent]
        default: present
      vfs:
        description: How many VFs. Another number means that all VFs of the PF go and come back, as the kernel knows no other way;
          the plan says which of them are in use. Without it, the number stays as it is.
        type: int
      driver:
        description: Driver of the VFs, such as V(vfio-pci) for virtual machines or V(mlx5_core) for pods and the host; V(unbound)
          for none. Empty leaves the choice to the kernel.
        type: str
        default: ''
      mtu:
        description: MTU of the PF, and of its VFs and representors where they have no other.
        type: int
      autoprobe:
        description: Whether the kernel may bind new VFs to drivers by itself. Without it, VFs that have no O(pfs[].driver) stay
          unbound. PFs of a LAG never do so, as VFs must not be bound before the LAG is active.
        type: bool
        default: true
      vf:
        description: Settings of single VFs. Where several entries name a VF, later ones count.
        type: list
        elements: dict
        default: []
        suboptions:
          index:
            description: Number of the VF, several as V(0-3) or V(0-3,6), or a list of numbers. Counted from 0.
            type: raw
            required: true
          driver:
            description: Driver of this VF; V(unbound) for none. Without it, that of the PF's entry.
            type: str
          mac:
            description: Its MAC address. It takes effect when the VF's driver starts, which is then started again.
            type: str
          vlan:
            description: VLAN of its traffic, V(0) for none. Where the eswitch is in switchdev mode, this becomes the VLAN of the
              VF's representor in the bridge or Open vSwitch that forwards.
            type: int
          qos:
            description: Priority (802.1p) of that VLAN. Not in switchdev mode.
            type: int
          proto:
            description: Kind of that VLAN's tag. V(802.1ad) is not possible in switchdev mode.
            type: str
            choices: [802.1Q, 802.1ad]
          trust:
            description: Whether the VF may change its MAC and receive everything. Not in switchdev mode.
            type: bool
          spoofchk:
            description: Whether frames with another source MAC are dropped. Refused in switchdev mode, where the eswitch has no
              such check.
            type: bool
          min_tx_rate:
            description: Guaranteed rate in Mbit/s, V(0) for none.
            type: int
          max_tx_rate:
            description: Limit in Mbit/s, V(0) for none.
            type: int
          link_state:
            description: V(auto) follows the port.
            type: str
            choices: [auto, enable, disable]
          node_guid:
            description: Node GUID, on InfiniBand ports.
            type: str
          port_guid:
            description: Port GUID, on InfiniBand ports.
            type: str
          mtu:
            description: MTU of this VF's device and representor, where it is not that of the PF. Not above it.
            type: int
    required: true
  accept_management:
    description: PFs that may lose traffic although the host is reached through them; addresses, or as in the entries of PFs.
    type: list
    elements: raw
    default: []
  guard:
    description: Seconds in which the host goes back to its former state by itself unless the controller confirms over a new
      connection. It is armed before traffic is touched. V(0) does without.
    type: int
    default: 0
  root:
    description: Where the host's files lie. In a tree nothing can be done.
    type: path
    default: /
requirements:
  - python >= 3.9 on the host
  - iproute2 on the host, with devlink for cards that have an eswitch
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Returns details on what has changed (or possibly needs changing in C(check_mode)), when in diff mode.
    support: full
author:
  - nearmetal contributors (@nearmetal)
"""

EXAMPLES = r"""
- name: Eight VFs for virtual machines, the first with a VLAN and a MAC of its own
  nearmetal.rack.sriov:
    pfs:
      - pf: {address: "0000:08:00.0"}
        vfs: 8
        driver: vfio-pci
        mtu: 9000
        vf:
          - {index: 0, mac: "02:00:00:00:08:00", vlan: 100}

- name: Take the VFs of one port away, whatever it is called now
  nearmetal.rack.sriov:
    pfs:
      - pf: {serial: MT2112X00001, port: p1}
        state: absent
"""

RETURN = r"""
guard:
  description: The guard that was armed, with C(token), C(seconds) and C(deadline). M(nearmetal.rack.converge) confirms it; else
    the host goes back to its former network.
  returned: when traffic was disturbed and O(guard) is not V(0)
  type: dict
pfs:
  description: The PFs with their VFs as they are now (in check mode, as they were found).
  returned: success
  type: list
  elements: dict
steps:
  description: What differed, each with key, before, after, reason, disruption and verify.
  returned: success
  type: list
  elements: dict
operations:
  description: What was done (in check mode, what would be done first), in order, each with kind, target, value and text.
  returned: success
  type: list
  elements: dict
"""

from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.nearmetal.rack.plugins.module_utils.capabilities import sriov as capability
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric.options import SRIOV_OPTIONS
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric.running import carry_out
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric_boot.hooks import hooks
from ansible_collections.nearmetal.rack.plugins.module_utils.host import Host, HostError, tree
from ansible_collections.nearmetal.rack.plugins.module_utils.model import IntentError
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.document import observe

CARRIED = (capability,)
"""What is imported travels with the module: the capability, whose observers then run."""


def converge(host: Host, params: Dict[str, Any], check: bool) -> Dict[str, Any]:
    """Observe, decide, act, read back; the module's result. Raises IntentError or HostError."""
    return carry_out("sriov", host, params, check, observe, hooks("sriov"))


def main() -> None:
    """See DOCUMENTATION."""
    module = AnsibleModule(argument_spec=SRIOV_OPTIONS, supports_check_mode=True)
    try:
        host = tree(module.params["root"])
        with host.lock():
            result = converge(host, module.params, module.check_mode)
    except IntentError as err:
        module.fail_json(msg="; ".join("%s: %s. Fix: %s." % (p.value, p.message, p.fix) for p in err.found))
    except HostError as err:
        module.fail_json(msg=str(err))
    for warning in result.pop("warnings"):
        module.warn(warning)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
