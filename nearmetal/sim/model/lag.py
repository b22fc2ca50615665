"""LAG of the mlx5 driver: when it activates, of which type, and when it does not.

Source of all rules: Linux drivers/net/ethernet/mellanox/mlx5/core/lag/lag.c (mlx5_do_bond, mlx5_lag_check_prereq,
mlx5_lag_is_roce_lag, mlx5_activate_lag, mlx5_deactivate_lag, mlx5_handle_changeupper_event) and mpesw.c, as read; the
limit of 64 VFs as counted by the firmware: MLX5_LAG_MAX_VFS there, and Mellanox ovs-tests (NUM_OF_VFS=65).

The driver only looks at its bond when something happens: a port joins or leaves, a link changes, an eswitch changes its
mode. An attempt that failed is therefore not repeated when the VFs are unbound later; something must happen again.
"""

from __future__ import annotations

import errno
from typing import Any

from .errors import Refusal, invalid, unsupported

State = dict[str, Any]

MAX_VFS = 64
FORWARDING = {"active-backup": "active-backup", "balance-xor": "hash", "802.3ad": "hash"}
"""Bond modes that mlx5 can offload: tx type active-backup or hash (NETDEV_LAG_TX_TYPE_*)."""


def of(state: State, card: str) -> dict[str, Any]:
    """The LAG of a card, made where there was none."""
    entry: dict[str, Any] = state["lag"].setdefault(
        card, {"mode": "none", "shared_fdb": False, "bond": "", "wedged": False, "error": ""}
    )
    return entry


def pfs_of(state: State, card: str) -> list[dict[str, Any]]:
    """The PFs of a card that its driver runs, in the order of their ports."""
    return [
        state["pfs"][port]
        for port in state["cards"][card]["ports"]
        if state["pfs"][port]["driver"] == "mlx5_core"
    ]


def supported(state: State, card: str) -> bool:
    """A LAG needs a card with several ports (num_lag_ports > 1), all run by the driver."""
    known = state["cards"].get(card)
    return bool(known) and len(known["ports"]) > 1 and len(pfs_of(state, card)) == len(known["ports"])


def bond_of(state: State, card: str) -> str:
    """The bond that has exactly the ports of this card, in a mode that can be offloaded; "" where there is none."""
    names = [pf["netdev"] for pf in pfs_of(state, card)]
    masters = {state["netdevs"][name]["master"] for name in names if name in state["netdevs"]}
    if len(masters) != 1 or len(names) != len(state["cards"][card]["ports"]) or not all(names):
        return ""
    master = masters.pop()
    members = [name for name, device in state["netdevs"].items() if device["master"] == master]
    if (
        master not in state["bonds"]
        or sorted(members) != sorted(names)
        or state["bonds"][master]["mode"] not in FORWARDING
    ):
        return ""
    return str(master)


def ready(state: State, card: str) -> bool:
    """mlx5_lag_is_ready: not where the firmware counts more than 64 VFs."""
    firmware = state["cards"][card]["firmware"]
    counted = firmware["NUM_OF_VFS"]["current"] if firmware["SRIOV_EN"]["current"] else 0
    return int(counted) <= MAX_VFS


def prerequisites(state: State, card: str) -> bool:
    """mlx5_lag_check_prereq: a PF with VFs is in switchdev mode, and all PFs are in the same mode."""
    pfs = pfs_of(state, card)
    modes = {pf["esw"]["mode"] for pf in pfs}
    return len(modes) == 1 and not any(pf["vfs"] and pf["esw"]["mode"] != "switchdev" for pf in pfs)


def bound_vfs(state: State, card: str) -> list[str]:
    """VFs that some driver holds, which makes the firmware refuse to create or destroy a LAG."""
    return [vf["address"] for pf in pfs_of(state, card) for vf in pf["vfs"] if vf["driver"]]


def event(state: State, pf: str, what: str) -> None:
    """Something happened to a PF: mlx5_do_bond. what: upper, link, mode, vfs."""
    known = state["pfs"].get(pf)
    if known and known["kind"] == "mlx5" and supported(state, known["card"]):
        _do_bond(state, known["card"])


def netdev_gone(state: State, pf: str) -> None:
    """The driver of a port went away with its network device: no LAG without it."""
    known = state["pfs"].get(pf)
    if known and known["kind"] == "mlx5" and known["card"] in state["lag"]:
        _deactivate(state, known["card"])


def _do_bond(state: State, card: str) -> None:
    entry = of(state, card)
    if entry["mode"] == "multiport_eswitch":
        return
    bond = bond_of(state, card)
    want = bool(bond) and ready(state, card) and prerequisites(state, card)
    if bond and not ready(state, card):
        log(state, card, "Can't activate LAG offload, PF is configured with more than 64 VFs")
    if want and entry["mode"] == "none":
        _activate(state, card, bond)
    elif not want and entry["mode"] != "none":
        _deactivate(state, card)


def _activate(state: State, card: str, bond: str) -> None:
    entry = of(state, card)
    pfs = pfs_of(state, card)
    roce = all(pf["esw"]["mode"] == "legacy" and not pf["vfs"] for pf in pfs)
    shared = not roce
    hashed = FORWARDING[state["bonds"][bond]["mode"]] == "hash"
    log(
        state,
        card,
        f"lag map: port 1:1 port 2:2\nshared_fdb:{int(shared)} mode:{'hash' if hashed else 'queue_affinity'}",
    )
    held = bound_vfs(state, card)
    if held or entry["wedged"] or "lag-inactive" in state["faults"]:
        entry["error"] = f"VFs are bound: {', '.join(held)}" if held else "the firmware refuses"
        log(state, card, "Failed to create LAG (-22)")
        log(
            state,
            card,
            "Failed to activate RoCE LAG"
            if roce
            else "Failed to activate VF LAG\n"
            "Make sure all VFs are unbound prior to VF LAG activation or deactivation",
        )
        return
    if shared:
        log(state, card, "Operation mode is single FDB")
    entry.update(mode="roce" if roce else "switchdev", shared_fdb=shared, bond=bond, error="")


def _deactivate(state: State, card: str) -> None:
    entry = of(state, card)
    if entry["mode"] == "none":
        return
    held = bound_vfs(state, card) if entry["mode"] != "roce" else []
    entry.update(mode="none", shared_fdb=False, bond="")
    if held:
        entry.update(wedged=True, error=f"deactivated while VFs were bound: {', '.join(held)}")
        log(
            state,
            card,
            "Failed to deactivate VF LAG; driver restart required\n"
            "Make sure all VFs are unbound prior to VF LAG activation or deactivation",
        )


def disable_change(state: State, pf: str) -> None:
    """mlx5_lag_disable_change: an eswitch is about to change, an active LAG ends first."""
    known = state["pfs"][pf]
    if known["card"] in state["lag"]:
        _deactivate(state, known["card"])


def set_multiport(state: State, pf: str, on: bool) -> None:
    """Devlink parameter esw_multiport: enable_mpesw and disable_mpesw of mpesw.c.

    EINVAL while another LAG is active; EOPNOTSUPP unless all PFs are in switchdev mode, and unless the firmware has the
    port selection flow table and creates a LAG without the master (LAG_RESOURCE_ALLOCATION=1: Mellanox ovs-tests).
    """
    card = state["pfs"][pf]["card"]
    if not supported(state, card):
        raise unsupported()
    entry = of(state, card)
    pfs = pfs_of(state, card)
    if not on:
        if entry["mode"] == "multiport_eswitch":
            entry.update(mode="none", shared_fdb=False)
            for one in pfs:
                one["esw"]["multiport"] = False
        return
    if entry["mode"] == "multiport_eswitch":
        return
    if entry["mode"] != "none":
        raise invalid()
    resources = str(state["cards"][card]["firmware"]["LAG_RESOURCE_ALLOCATION"]["current"])
    if (
        any(one["esw"]["mode"] != "switchdev" for one in pfs)
        or "1" not in resources
        or not prerequisites(state, card)
    ):
        raise unsupported()
    if bound_vfs(state, card) or entry["wedged"] or "lag-inactive" in state["faults"]:
        log(state, card, "Failed to create LAG (-22)\nFailed to create LAG in MPESW mode (-22)")
        raise Refusal(errno.EINVAL)
    entry.update(mode="multiport_eswitch", shared_fdb=True, error="")
    for one in pfs:
        one["esw"]["multiport"] = True


def log(state: State, card: str, text: str) -> None:
    """Lines of the kernel's log, in the name of the first port."""
    port = state["cards"][card]["ports"][0]
    state["dmesg"] = [*state["dmesg"][-400:], *(f"mlx5_core {port}: {line}" for line in text.splitlines())]


def debugfs(state: State, pf: str) -> dict[str, str | None]:
    """Files of debugfs mlx5/PF/lag; None: EINVAL, as all but `state` and `members` give while inactive.

    Source: lag/debugfs.c (since 5.19).
    """
    card = state["pfs"][pf]["card"]
    if not supported(state, card):
        return {}
    entry = of(state, card)
    active = entry["mode"] != "none"
    hashed = entry["mode"] == "multiport_eswitch" or (
        active and FORWARDING.get(state["bonds"].get(entry["bond"], {}).get("mode", ""), "") == "hash"
    )
    select = "mpesw" if entry["mode"] == "multiport_eswitch" else "hash" if hashed else "queue_affinity"
    return {
        "state": "active\n" if active else "disabled\n",
        "type": entry["mode"] + "\n" if active else None,
        "port_sel_mode": select + "\n" if active else None,
        "flags": f"shared_fdb:{'on' if entry['shared_fdb'] else 'off'}\nport_sel:{select}\n"
        if active
        else None,
        "mapping": "1:1\n2:2\n" if active else None,
        "members": "".join(f"{port}\n" for port in state["cards"][card]["ports"]),
    }
