# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The vendor-neutral words for BIOS settings, and sets of them. Data."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Tuple


class Word(NamedTuple):
    """One word. values: what it may be (True and False for a switch)."""

    name: str
    values: Tuple[Any, ...]
    about: str
    read_only: bool = False
    moves: str = ""  # "cpus", "nodes": what the kernel counts otherwise afterwards


SWITCH = (True, False)


def _words(*words: Word) -> Dict[str, Word]:
    return {word.name: word for word in words}


WORDS: Dict[str, Word] = _words(
    Word("smt", SWITCH, "two threads per core (Hyper-Threading, SMT)", moves="cpus"),
    Word("virtualization", SWITCH, "the processor runs virtual machines (VT-x, SVM)"),
    Word("iommu", SWITCH, "DMA of devices is translated (VT-d, AMD-Vi, SMMU)"),
    Word("sriov", SWITCH, "the firmware leaves room for virtual functions"),
    Word("acs", SWITCH, "bridges show Access Control Services, so that devices get IOMMU groups of their own"),
    Word("ats", SWITCH, "devices may keep translated addresses"),
    Word("above_4g_decoding", SWITCH, "memory windows of devices may lie above 4 GiB: GPUs with large BARs"),
    Word("resizable_bar", SWITCH, "devices may ask for larger memory windows"),
    Word("numa_per_socket", (1, 2, 4), "NUMA nodes of one socket (SNC of Intel, NPS of AMD)", moves="nodes"),
    Word("l3_as_numa", SWITCH, "each L3 cache is a NUMA node (AMD)", moves="nodes"),
    Word("c_states", SWITCH, "idle cores may sleep deeper than C1"),
    Word("p_states", SWITCH, "the frequency of cores may be changed"),
    Word("power_profile", ("performance", "balanced", "efficiency"), "whom power management favours"),
    Word("turbo", SWITCH, "cores may run above their base frequency"),
    Word("prefetchers", SWITCH, "all hardware prefetchers of the cores"),
    Word("memory_interleave", SWITCH, "memory is spread over the sockets, so that there is one NUMA node", moves="nodes"),
    Word("pcie_relaxed_ordering", SWITCH, "PCI Express may reorder writes"),
    Word("max_read_request", (128, 256, 512, 1024, 2048, 4096), "largest read request on PCI Express, in bytes"),
    Word("boot_mode", ("uefi", "legacy"), "how the system boots"),
    Word("secure_boot", SWITCH, "only signed boot loaders and kernels start; it is compared, never changed", read_only=True),
)

OTHER_NAMES: Dict[str, str] = {
    "hyperthreading": "smt", "ht": "smt", "logicalproc": "smt", "vtx": "virtualization", "svm": "virtualization",
    "vmx": "virtualization", "vtd": "iommu", "amdvi": "iommu", "smmu": "iommu", "snc": "numa_per_socket",
    "nps": "numa_per_socket", "subnumacluster": "numa_per_socket", "subnumaclustering": "numa_per_socket",
    "nodeinterleaving": "memory_interleave", "rebar": "resizable_bar", "boost": "turbo", "cstates": "c_states",
    "maxreadreq": "max_read_request", "llcasnuma": "l3_as_numa", "sysprofile": "power_profile", "workloadprofile": "power_profile",
}  # fmt: skip
"""What people also call the words; they are offered, not taken."""

PRESETS: Dict[str, Dict[str, Any]] = {
    "virtualization_performance": {
        "virtualization": True, "iommu": True, "sriov": True, "above_4g_decoding": True, "turbo": True,
        "prefetchers": True, "memory_interleave": False, "power_profile": "performance",
    },
    "storage_client": {
        "iommu": True, "sriov": True, "above_4g_decoding": True, "turbo": True, "c_states": False,
        "memory_interleave": False, "power_profile": "performance", "pcie_relaxed_ordering": True,
        "max_read_request": 4096,
    },
}  # fmt: skip
"""What guests with passed through devices need; and what a client of fast storage over RDMA gains from (C-states cost
latency). Neither touches SMT, sub-NUMA nodes or the boot mode: these are choices of the site."""
