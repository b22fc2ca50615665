# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connection to a simulated host."""

from __future__ import annotations

DOCUMENTATION = r"""
name: simulated
short_description: Hosts that exist only as a model on the controller
version_added: 0.2.0
description:
  - Answers for a host of the simulated rack, a stateful model of a GPU server with mlx5 cards. See C(nearmetal sim).
  - The probe is answered in this process. Modules of this collection that reach a host only through its own interface
    run as processes on the controller that are shown the model; they cannot write to anything but the folder of the
    model where the kernel allows private mount namespaces.
  - Everything else (other modules, shell commands, file transfers) is refused by name.
  - A host that has no state yet is made at the first connection, in factory state.
author:
  - nearmetal contributors (@nearmetal)
options:
  host:
    description: Name of the simulated host.
    type: str
    default: inventory_hostname
    vars:
      - name: inventory_hostname
  sim_dir:
    description: Folder that holds the state of all simulated hosts.
    type: path
    env:
      - name: NEARMETAL_SIM_DIR
    vars:
      - name: nearmetal_sim_dir
  variant:
    description: What differs from the usual server when the host is made. See C(nearmetal sim reset --help).
    type: dict
    default: {}
    vars:
      - name: nearmetal_sim
  pipelining:
    description: Modules are always piped, as a simulated host has no place to put them.
    type: bool
    default: true
requirements:
  - the nearmetal Python package on the controller
"""

from pathlib import Path

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.connection import ConnectionBase
from ansible_collections.nearmetal.rack.plugins.module_utils import collector

try:
    from nearmetal.sim import machine, remote, reset, store
except ImportError as err:
    MISSING: ImportError | None = err
else:
    MISSING = None


class Connection(ConnectionBase):  # type: ignore[misc]
    """See DOCUMENTATION."""

    transport = "nearmetal.rack.simulated"
    has_pipelining = True
    always_pipeline_modules = True
    _connected = False

    def _connect(self) -> Connection:
        if MISSING is not None:
            raise AnsibleError(
                "the connection nearmetal.rack.simulated needs the Python package nearmetal: %s" % MISSING
            )
        if not self._connected:
            folder = self.get_option("sim_dir")
            rack = store.Store(Path(folder).absolute() if folder else store.sim_dir())
            self._machine = machine.Machine(rack, str(self.get_option("host")))
            try:
                reset.ensure(self._machine, self.get_option("variant"))
            except store.SimError as err:
                raise AnsibleConnectionFailure(str(err)) from err
            self._connected = True
        return self

    def exec_command(
        self, cmd: str, in_data: bytes | None = None, sudoable: bool = True
    ) -> tuple[int, bytes, bytes]:
        """Run the probe, a module of ours, or one of a few words; see nearmetal/sim/remote.py."""
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        self._connect()
        try:
            code, out, said = remote.execute(collector, self._machine, cmd, in_data)
        except (remote.Lost, store.SimError) as err:
            raise AnsibleConnectionFailure(str(err)) from err
        return code, out.encode("utf-8", "surrogateescape"), said.encode("utf-8", "surrogateescape")

    def put_file(self, in_path: str, out_path: str) -> None:
        """Refused."""
        raise AnsibleError("simulated host: refused: writing the file %s" % out_path)

    def fetch_file(self, in_path: str, out_path: str) -> None:
        """Refused."""
        raise AnsibleError("simulated host: refused: fetching the file %s" % in_path)

    def reset(self) -> None:
        """Begin a new connection."""
        self.close()

    def close(self) -> None:
        """End it."""
        self._connected = False
