# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SR-IOV, eswitch, bonds, VF LAG and forwarding of a host: one shape of what is wanted, one planner, one executor."""
