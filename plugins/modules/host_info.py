#!/usr/bin/python
# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host is, as one document."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_info
short_description: Observe a host in one round trip
version_added: 0.1.0
author: nearmetal contributors (@nearmetal)
description:
  - Reads everything that the roles of this collection decide by - processors, NUMA nodes, huge pages, kernel
    arguments running and configured, boot loader, IOMMU, PCI functions, network devices, cpusets and interrupt
    affinity - and returns it as one document.
  - An action plugin ships a small collector over the connection and parses on the controller, so a call costs one
    round trip. The module does the same where it runs on the host itself.
  - Changes nothing.
options:
  root:
    description:
      - The tree to observe. Other than C(/) it is an image being built, a chroot, or an unpacked archive of C(/proc)
        and C(/sys); links are followed inside it and nothing is executed.
    type: path
    default: /
requirements:
  - python >= 3.9 on the host
attributes:
  check_mode:
    description: Runs in check mode, as it only reads.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
  platform:
    description: Operating systems.
    platforms: linux
    support: full
"""

EXAMPLES = r"""
- name: Observe
  nearmetal.rack.host_info:
  register: found

- name: Show which CPUs share a core
  ansible.builtin.debug:
    msg: "{{ found.state.cpu.cores | map(attribute='cpus') }}"

- name: Observe an unpacked support archive
  nearmetal.rack.host_info:
    root: /srv/must-gather/worker1/sysinfo
"""

RETURN = r"""
state:
  description:
    - The document. CPU sets are cpulists as the kernel writes them, sizes are bytes unless the name ends in C(_kb).
    - A value that could not be read is null and named in C(unread) with the reason; it never reads as absent.
  returned: success
  type: dict
  contains:
    schema:
      description: Version of the document.
      type: int
      sample: 1
    live:
      description: Whether it is a running system (false for a tree).
      type: bool
    os:
      description: Distribution and host name.
      type: dict
    cpu:
      description: Processors - online, offline, isolated, cores with their siblings, NUMA nodes with distances.
      type: dict
    memory:
      description: Memory and the huge page pools of every node.
      type: dict
    kernel:
      description: Release, running arguments, boot id, lockdown.
      type: dict
    boot:
      description: Boot loader and the arguments that it will pass next time.
      type: dict
    iommu:
      description: Groups, their types, and the units in use.
      type: dict
    pci:
      description: PCI functions with NUMA node, driver, SR-IOV, network devices.
      type: list
      elements: dict
    net:
      description: Network devices of hardware, and bonds.
      type: list
      elements: dict
    confinement:
      description: cpusets of the systemd slices, affinity of the interrupts, irqbalance.
      type: dict
    kvm:
      description: Whether /dev/kvm is there.
      type: bool
    last_reboot:
      description: What the last reboot by this collection was for.
      type: dict
    files:
      description: Content of the files that the capabilities own or ask for, by path.
      type: dict
    unread:
      description: Sections that could not be read, each with the reason.
      type: list
      elements: dict
kind:
  description: Why it failed - V(unreachable), V(no_python), V(become) or V(failed).
  returned: failure
  type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.nearmetal.rack.plugins.module_utils.host import HostError, tree
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.document import observe


def main() -> None:
    """Observe the host that this runs on."""
    module = AnsibleModule(argument_spec={"root": {"type": "path", "default": "/"}}, supports_check_mode=True)
    try:
        host = tree(module.params["root"])
    except HostError as err:
        module.fail_json(msg=str(err))
    module.exit_json(changed=False, state=observe(host))


if __name__ == "__main__":
    main()
