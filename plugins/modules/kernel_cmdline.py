#!/usr/bin/python
# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel arguments in the boot loader's configuration."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_cmdline
short_description: Kernel arguments, on every boot loader
version_added: 0.1.0
description:
  - Makes the arguments that the boot loader passes to the kernel as asked, and keeps all others exactly as they are,
    with their order, their duplicates and their quotes.
  - Knows GRUB on Debian, Ubuntu and SUSE, GRUB with boot loader entries on Fedora and RHEL 8 and newer, systemd-boot,
    and rpm-ostree. Refuses unified kernel images, containers and hosts that get their arguments from outside.
  - Edits each word in the file where it stands, then reads again what the boot loader will really use. Where that is
    not what was asked, or a file cannot be written, or the generator of grub.cfg fails, the former files are restored.
  - Entries for recovery and rescue keep their arguments, except for words that they share with normal entries.
  - Never reboots.
options:
  args:
    description:
      - Words that must be there, each V(name) or V(name=value), quoted as the kernel wants it if the value has blanks.
      - A name given several times becomes exactly that sequence, adjacent, in place of all former words of that name.
        V(hugepagesz) and V(hugepages) count as one name.
      - Words that mean the same are equal. CPU lists are compared by their CPUs, sizes by their bytes, huge pages by
        the pages of each size, and V(-) and V(_) in a name are the same. Lists of flags (V(intel_iommu), V(amd_iommu),
        V(iommu), V(pci), V(efi)) are as asked when every asked flag is there and none contradicts it.
    type: list
    elements: str
    default: []
  absent:
    description:
      - What must not be there. A name means all words of the name, V(name=value) that word only.
    type: list
    elements: str
    default: []
  root:
    description:
      - Where the host's files are. Other than V(/) it is a tree, such as an image being built. No command is run there,
        and where it has a C(grub.cfg), the lines that the generator would write anew are edited.
    type: path
    default: /
attributes:
  check_mode:
    support: full
    description: Says what would change without writing anything.
  diff_mode:
    support: full
    description: The line before and after, and each file.
author:
  - nearmetal contributors (@nearmetal)
"""

EXAMPLES = r"""
- name: Pass-through IOMMU and huge pages of two sizes
  nearmetal.rack.kernel_cmdline:
    args:
      - intel_iommu=on
      - iommu=pt
      - hugepagesz=1G
      - hugepages=16
      - hugepagesz=2M
      - hugepages=512
    absent:
      - nosmt
      - console=ttyS1

- name: The same in an image that is being built
  nearmetal.rack.kernel_cmdline:
    root: /srv/image
    args: [iommu=pt]
"""

RETURN = r"""
before:
  description:
    - What the default entry passed to the kernel, as it stands in the boot loader's configuration, C(root=) included
      where it stands there. Without a C(grub.cfg), what the defaults of GRUB evaluate to.
    - Variables of the boot loader are replaced where a file says what they are.
    - Null where nothing is asked, or all that is asked is in force, on a host whose arguments cannot be changed.
  returned: success
  type: str
  sample: root=UUID=2ab82b06 ro quiet
after:
  description: The same after the change, read again from what the loader will use; in check mode, what it would be.
  returned: success
  type: str
  sample: root=UUID=2ab82b06 ro quiet intel_iommu=on iommu=pt
running:
  description: What the running kernel was given (C(/proc/cmdline)). Null where the tree has no C(/proc).
  returned: success
  type: str
  sample: BOOT_IMAGE=/vmlinuz-6.12 root=UUID=2ab82b06 ro quiet
reboot_required:
  description: Whether the running kernel lacks something that is asked. False where there is no running kernel.
  returned: success
  type: bool
bootloader:
  description: One of V(grub), V(grub-bls), V(systemd-boot), V(ostree), or V(uki) or empty where nothing was asked.
  returned: success
  type: str
  sample: grub
files:
  description: Files that were changed, or would be.
  returned: success
  type: list
  elements: str
"""

from typing import Dict, List

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.nearmetal.rack.plugins.module_utils import bootloader, cmdline
from ansible_collections.nearmetal.rack.plugins.module_utils.host import HostError, tree


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "args": {"type": "list", "elements": "str", "default": []},
            "absent": {"type": "list", "elements": "str", "default": []},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    args, absent = module.params["args"], module.params["absent"]
    wrong = cmdline.check(args, absent)
    if wrong:
        module.fail_json(msg="; ".join(wrong))
    try:
        done = bootloader.ensure(tree(module.params["root"]), args, absent, dry=module.check_mode)
    except (bootloader.LoaderError, HostError) as err:
        module.fail_json(msg=str(err))
    for text in done.warnings:
        module.warn(text)
    module.exit_json(
        changed=done.changed, before=done.before, after=done.after, running=done.running,
        reboot_required=done.reboot_required, bootloader=done.loader, files=[edit.path for edit in done.edits],
        diff=_diff(done) if done.changed else [],
    )  # fmt: skip


def _diff(done: bootloader.Outcome) -> List[Dict[str, str]]:
    lines = {"before": "%s\n" % done.before, "after": "%s\n" % done.after}
    lines["before_header"] = lines["after_header"] = "kernel arguments of the default entry (%s)" % done.loader
    files = [
        {"before": edit.old or "", "after": edit.new, "before_header": edit.path, "after_header": edit.path}
        for edit in done.edits
    ]
    return [lines, *files]


if __name__ == "__main__":
    main()
