#!/usr/bin/python
# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bonds that the network card offloads."""

from __future__ import annotations

DOCUMENTATION = r"""
module: vf_lag
short_description: Bond the two ports of a card so that VFs survive the loss of one
version_added: 0.2.0
description:
  - In this order. VFs in legacy mode and unbound, flow steering, switchdev mode on each port, switch ids, hw-tc-offload, bond,
    then a gate on state and type of the LAG, and only then drivers of the VFs, forwarding, MTU. The undo is the reverse.
  - Where the LAG does not become active as V(switchdev), the module fails with the reason, and no VF is bound.
  - Bad values are found, all of them, before anything is touched.
options:
  bonds:
    description: The bonds. Those that are not listed are left alone.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the bond.
        type: str
        required: true
      pfs:
        description: The two PFs, ports of one card.
        type: list
        elements: dict
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
        description: V(absent) undoes it in reverse order. VFs are unbound, the forwarder and the bond go, the eswitch returns
          to legacy mode, and VFs stay only as far as the role sriov asks for them.
        type: str
        choices: [present, absent]
        default: present
      lag:
        description: Whether mlx5 is to offload the bond, so that a VF survives the loss of one port. V(false) makes a bond and
          nothing more; VFs then live and die with their own port.
        type: bool
        default: true
      multiport:
        description: A multiport eswitch in place of a bond. Both ports are one eswitch, all VFs belong to the first PF, and no
          bond is made. Needs C(LAG_RESOURCE_ALLOCATION=1) in the firmware.
        type: bool
        default: false
      mode:
        description: Bond mode. mlx5 offloads no other than these.
        type: str
        default: active-backup
      miimon:
        description: Link monitoring in ms.
        type: int
        default: 100
      lacp_rate:
        description: How often LACP is heard, with mode V(802.3ad).
        type: str
        choices: [slow, fast]
      xmit_hash_policy:
        description: What flows are spread by, with the modes V(balance-xor) and V(802.3ad).
        type: str
        choices: [layer2, layer2+3, layer3+4, encap2+3, encap3+4, vlan+srcmac]
      mtu:
        description: MTU of bond, PFs, representors and VFs. Without it, that of the PFs in C(sriov_pfs).
        type: int
      addresses:
        description: Addresses of the bond with prefix length. With forwarding by a bridge they belong to the bridge's own device.
        type: list
        elements: str
        default: []
      owner:
        description: Who makes the bond at boot. V(auto) is who does so already, else the host's network manager; V(external) leaves
          its configuration alone.
        type: str
        choices: [auto, networkd, NetworkManager, ifupdown, netplan, external]
        default: auto
      steering:
        description: Where flow rules are made, by software (V(smfs)) or firmware (V(dmfs)). Empty leaves it as it is.
        type: str
        choices: ['', smfs, dmfs]
        default: smfs
      forwarding:
        description: Who forwards between the bond and the VFs. In switchdev mode VFs pass no traffic without.
        type: dict
        default: {}
        suboptions:
          type:
            description: V(ovs) joins bond and representors to an Open vSwitch bridge with C(hw-offload), V(bridge) to a VLAN-aware
              Linux bridge. V(external) leaves it to the named owner.
            type: str
            choices: [none, bridge, ovs, external]
            default: none
          name:
            description: Name of the bridge.
            type: str
          owner:
            description: Who forwards, with V(external), such as V(ovn-kubernetes).
            type: str
    required: true
  pfs:
    description: VFs of the bonds' PFs, as the role sriov takes them.
    type: list
    elements: dict
    default: []
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
  accept_management:
    description: PFs that may lose traffic although the host is reached through them; addresses, or as in the entries of PFs.
    type: list
    elements: raw
    default: []
  timeout:
    description: Seconds to wait for the LAG before giving up. No VF is bound then.
    type: int
    default: 60
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
- name: VF LAG with LACP, and Open vSwitch that forwards
  nearmetal.rack.vf_lag:
    bonds:
      - name: bond0
        pfs: [{address: "0000:08:00.0"}, {address: "0000:08:00.1"}]
        mode: 802.3ad
        mtu: 9000
        forwarding: {type: ovs, name: br-fabric}
    pfs:
      - {pf: {address: "0000:08:00.0"}, vfs: 4, driver: vfio-pci, vf: [{index: 0-3, vlan: 100}]}
      - {pf: {address: "0000:08:00.1"}, vfs: 4, driver: vfio-pci}

- name: Undo it
  nearmetal.rack.vf_lag:
    bonds:
      - name: bond0
        pfs: [{address: "0000:08:00.0"}, {address: "0000:08:00.1"}]
        state: absent
        forwarding: {type: ovs, name: br-fabric}
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
from ansible_collections.nearmetal.rack.plugins.module_utils.capabilities import vf_lag as capability
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric.options import VF_LAG_OPTIONS
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric.running import carry_out
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric_boot.hooks import hooks
from ansible_collections.nearmetal.rack.plugins.module_utils.host import Host, HostError, tree
from ansible_collections.nearmetal.rack.plugins.module_utils.model import IntentError
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.document import observe

CARRIED = (capability,)
"""What is imported travels with the module: the capability, whose observers then run."""


def converge(host: Host, params: Dict[str, Any], check: bool) -> Dict[str, Any]:
    """Observe, decide, act, read back; the module's result. Raises IntentError or HostError."""
    return carry_out("vf_lag", host, params, check, observe, hooks("vf_lag"))


def main() -> None:
    """See DOCUMENTATION."""
    module = AnsibleModule(argument_spec=VF_LAG_OPTIONS, supports_check_mode=True)
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
