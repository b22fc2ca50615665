# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing goes on changing hosts after the program that was watching it has died."""

from __future__ import annotations

import contextlib
import ctypes
import signal

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_parent() -> None:
    """Have this process end when its parent dies, however that happens. Only on Linux; elsewhere nothing.

    ansible-playbook and its forked workers have process groups of their own, so neither a closed
    terminal nor a signal to the parent's group reaches them. A module that runs on a host ends by itself.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
