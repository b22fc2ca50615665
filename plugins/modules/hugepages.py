#!/usr/bin/python
# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools of huge pages per NUMA node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: hugepages
short_description: Reserve huge pages per NUMA node
version_added: 0.1.0
description:
  - Sets the number of huge pages of each listed size and NUMA node while the host runs, and reads back what the kernel
    gave. Where it gives fewer, memory is compacted and then the page cache dropped before it is asked again; what is
    still missing is an error that tells how many were asked for and got.
  - Pools that are not listed are left alone. A pool is never shrunk below the pages that are in use.
  - With O(persist), a systemd unit reserves the same pools early at every boot. Reserving by boot arguments is the
    business of the role P(nearmetal.rack.hugepages#role).
  - On a tree (O(root) other than C(/)) only the files of that unit are written.
options:
  pages:
    description: The pools.
    type: list
    elements: dict
    required: true
    suboptions:
      size:
        description: Page size, such as V(2M) or V(1G).
        type: str
        required: true
      node:
        description:
          - NUMA node.
          - Without it, O(pages[].count) is a total that is spread evenly over the nodes with CPUs and memory; the
            lowest nodes take what is left over.
        type: int
      count:
        description: Number of pages; V(0) empties the pool.
        type: int
        required: true
  persist:
    description:
      - Whether the listed pools are reserved again at boot. The list is the whole list, pools of earlier calls are
        no longer reserved.
    type: bool
    default: true
  root:
    description: Where the host's files lie.
    type: path
    default: /
requirements:
  - python >= 3.9 on the host
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
- name: Uneven pools on two nodes
  nearmetal.rack.hugepages:
    pages:
      - {size: 2M, node: 0, count: 1024}
      - {size: 2M, node: 1, count: 4096}

- name: Give all 1G pages back
  nearmetal.rack.hugepages:
    pages:
      - {size: 1G, count: 0}
"""

RETURN = r"""
pools:
  description: All pools of the host as they are now (in check mode, as they were found).
  returned: success
  type: list
  elements: dict
  sample: [{node: 0, size_kb: 2048, total: 1024, free: 1024, surplus: 0}]
steps:
  description: What differed, each with key, before, after, reason and verify.
  returned: success
  type: list
  elements: dict
"""

from dataclasses import asdict
from typing import Any, Dict, cast

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.nearmetal.rack.plugins.module_utils import hugepages
from ansible_collections.nearmetal.rack.plugins.module_utils.diffs import diffs
from ansible_collections.nearmetal.rack.plugins.module_utils.host import Host, HostError, tree
from ansible_collections.nearmetal.rack.plugins.module_utils.model import IntentError
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.confinement import contents
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.document import observe
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.reader import Reader
from ansible_collections.nearmetal.rack.plugins.module_utils.state import State


def _observe(host: Host) -> State:
    state = observe(host, commands=False)
    files = contents(Reader(host), list(hugepages.FILES))
    return cast(State, {**state, "confinement": {**state["confinement"], "files": files}})


def converge(host: Host, params: Dict[str, Any], check: bool) -> Dict[str, Any]:
    """Observe, decide, act, read back; the module's result. Raises IntentError or HostError."""
    state = _observe(host)
    pools = hugepages.resolve(params["pages"], state)
    used = hugepages.in_use(pools, state) if state["live"] else []
    if used:
        raise IntentError(used)
    steps = hugepages.steps(pools, params["persist"], state)
    changed = hugepages.differing(pools, params["persist"], state)
    shown = diffs("huge pages", steps, state["confinement"]["files"], changed)
    if steps and not check:
        hugepages.apply_files(host, changed)
        if state["live"]:
            hugepages.fill(host, pools, state)
        state = _observe(host)
        left = hugepages.steps(pools, params["persist"], state)
        if left:
            raise HostError("huge pages", "; ".join("%s is still %s" % (s.key, s.before) for s in left))
    return {
        "changed": bool(steps),
        "pools": state["memory"]["hugepages"],
        "steps": [asdict(step) for step in steps],
        "diff": shown,
    }


def main() -> None:
    """See DOCUMENTATION."""
    pool = {
        "size": {"type": "str", "required": True},
        "node": {"type": "int"},
        "count": {"type": "int", "required": True},
    }
    module = AnsibleModule(
        argument_spec={
            "pages": {"type": "list", "elements": "dict", "required": True, "options": pool},
            "persist": {"type": "bool", "default": True},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    try:
        host = tree(module.params["root"])
        with host.lock():
            result = converge(host, module.params, module.check_mode)
    except IntentError as err:
        module.fail_json(msg="; ".join("%s: %s. Fix: %s." % (p.value, p.message, p.fix) for p in err.found))
    except HostError as err:
        module.fail_json(msg=str(err))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
