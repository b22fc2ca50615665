"""The rules of hardware, firmware and kernel that the model keeps, each with its source: `nearmetal sim rules`.

Each key is the name of a test in tests/unit/sim/test_rules.py.
"""

from __future__ import annotations

from dataclasses import dataclass

LAG = "Linux mlx5/core/lag/lag.c"
LEGACY = "Linux mlx5/core/esw/legacy.c"
IOV = "Linux drivers/pci/iov.c"
BONDING = "Linux drivers/net/bonding/bond_main.c, bond_options.c"


@dataclass(frozen=True)
class Rule:
    """key: test of the same name. text: what holds. source: where it is from."""

    key: str
    text: str
    source: str


RULES = (
    Rule(
        "numvfs_ebusy",
        "a VF count that is not zero cannot become another: EBUSY",
        f"{IOV} (sriov_numvfs_store)",
    ),
    Rule("numvfs_erange", "more VFs than sriov_totalvfs: ERANGE", f"{IOV} (sriov_numvfs_store)"),
    Rule("numvfs_enomem", "SR-IOV off in the BIOS: ENOMEM", "openshift/openshift-docs#32619"),
    Rule("numvfs_without_driver", "VFs need the PF's own driver: ENOENT", f"{IOV} (sriov_numvfs_store)"),
    Rule(
        "autoprobe",
        "new VFs are given to their driver unless sriov_drivers_autoprobe is 0",
        f"{IOV}, ABI sysfs-bus-pci",
    ),
    Rule(
        "vf_settings_forgotten", "a VF's MAC, VLAN, trust and rates go with it", "Linux mlx5/core/eswitch.c"
    ),
    Rule("vf_routing_ids", "VF addresses: PF + First VF Offset + n", "SR-IOV specification 2.1.2"),
    Rule(
        "vf_mac_after_rebind",
        "a VF's new MAC takes effect when its driver starts again",
        "measured on igb; Linux mlx5/core/en_main.c",
    ),
    Rule(
        "vf_held_by_guest",
        "VFs that a guest holds do not go away",
        "Linux drivers/vfio/pci (remove waits); here EBUSY",
    ),
    Rule(
        "vfio_enables_while_open",
        "a VF of vfio-pci is enabled (sysfs) while a guest has it open, and only then",
        "Linux drivers/vfio/pci/vfio_pci_core.c (vfio_pci_core_enable, _disable), ABI sysfs-bus-pci",
    ),
    Rule(
        "ovs_bridge_device",
        "a bridge of Open vSwitch is a network device as well; a tag is taken away by `clear`",
        "ovs-vsctl(8), Open vSwitch: ofproto/ofproto.c (local port)",
    ),
    Rule(
        "bind_needs_match",
        "bind: ENODEV where driver and override do not match, EBUSY where bound",
        "Linux drivers/base/bus.c, pci-driver.c",
    ),
    Rule("vfio_needs_group", "vfio-pci needs an IOMMU group: EINVAL", "Linux drivers/vfio/vfio_main.c"),
    Rule(
        "switchdev_representors",
        "representors and phys_switch_id only in switchdev mode (EOPNOTSUPP before)",
        "Linux Documentation/networking/switchdev.rst",
    ),
    Rule(
        "steering_in_legacy_only",
        "flow_steering_mode only in legacy mode: EOPNOTSUPP",
        "Linux mlx5/core/fs_core.c (mlx5_fs_mode_validate)",
    ),
    Rule(
        "vlan_refused_in_switchdev",
        "VF VLAN other than 0 outside legacy mode: EOPNOTSUPP",
        f"{LEGACY} (mlx5_eswitch_set_vport_vlan)",
    ),
    Rule(
        "spoofchk_refused_in_switchdev",
        "spoofchk, on or off, outside legacy mode: EOPNOTSUPP",
        f"{LEGACY} (mlx5_eswitch_set_vport_spoofchk)",
    ),
    Rule(
        "trust_refused_in_switchdev",
        "trust outside legacy mode: EOPNOTSUPP",
        f"{LEGACY} (mlx5_eswitch_set_vport_trust)",
    ),
    Rule(
        "guids_need_infiniband",
        "GUIDs of VFs only on InfiniBand: EOPNOTSUPP",
        "Linux net/core/rtnetlink.c (do_setvfinfo)",
    ),
    Rule(
        "mode_busy_with_flows",
        "eswitch mode with offloaded flows: EBUSY",
        "Linux mlx5/core/eswitch_offloads.c (mlx5_esw_try_lock)",
    ),
    Rule(
        "mode_change_breaks_bound_vfs",
        "bound VFs stay bound over a mode change, without traffic until rebound",
        "NVIDIA OFED manual, OVS offload",
    ),
    Rule(
        "lag_switchdev",
        "bond of exactly the card's two ports, switchdev on both: LAG type switchdev",
        f"{LAG} (mlx5_do_bond)",
    ),
    Rule("lag_modes", "bond modes 1, 2 and 4 only", f"{LAG} (mlx5_handle_changeupper_event)"),
    Rule("lag_roce", "PFs without VFs in legacy mode: LAG type roce", f"{LAG} (mlx5_lag_is_roce_lag)"),
    Rule(
        "lag_silent_in_legacy_with_vfs",
        "PFs with VFs in legacy mode: LAG stays inactive, silently",
        f"{LAG} (mlx5_lag_check_prereq)",
    ),
    Rule("lag_same_mode", "both PFs in the same eswitch mode, else no LAG", f"{LAG} (mlx5_lag_check_prereq)"),
    Rule(
        "lag_only_its_ports",
        "a bond with another member, or of two cards, is no LAG",
        f"{LAG} (mlx5_handle_changeupper_event)",
    ),
    Rule(
        "lag_fails_with_bound_vfs",
        "bound VFs: Failed to activate VF LAG, LAG inactive",
        f"{LAG} (mlx5_activate_lag)",
    ),
    Rule(
        "lag_no_retry",
        "a failed attempt is repeated only when a port, link or mode changes",
        f"{LAG} (mlx5_queue_bond_work)",
    ),
    Rule(
        "lag_deactivation_with_bound_vfs",
        "ended with bound VFs: driver restart required",
        f"{LAG} (mlx5_deactivate_lag)",
    ),
    Rule(
        "lag_more_than_64_vfs",
        "more than 64 VFs by firmware NUM_OF_VFS: never active",
        f"{LAG} (MLX5_LAG_MAX_VFS), Mellanox/ovs-tests",
    ),
    Rule(
        "lag_debugfs_einval",
        "type, flags, mapping, port_sel_mode: EINVAL while inactive",
        "Linux mlx5/core/lag/debugfs.c",
    ),
    Rule(
        "shared_fdb_switch_id",
        "with a shared FDB both ports say the same phys_switch_id",
        "Linux mlx5/core/eswitch_offloads.c",
    ),
    Rule(
        "multiport_eswitch",
        "esw_multiport: switchdev on both and LAG_RESOURCE_ALLOCATION=1, else EOPNOTSUPP; EINVAL beside another LAG",
        "Linux mlx5/core/lag/mpesw.c, Mellanox/ovs-tests",
    ),
    Rule(
        "bond_mode_with_slaves", "bond mode cannot change with members", f"{BONDING} (BOND_OPTFLAG_NOSLAVES)"
    ),
    Rule("enslave_while_up", "a device that is up cannot join a bond: EPERM", f"{BONDING} (bond_enslave)"),
    Rule(
        "bond_gives_back_mac",
        "members get the bond's MAC, and their own back when they leave, down",
        f"{BONDING} (__bond_release_one)",
    ),
    Rule(
        "lacp_partner_zero",
        "802.3ad without a partner: partner MAC zero, one port carries",
        "measured; Linux drivers/net/bonding/bond_3ad.c",
    ),
    Rule(
        "vfs_go_under_a_bond",
        "VFs can be changed under a bond, and the PF stays its member",
        "openshift/sriov-network-operator#632",
    ),
    Rule(
        "igb_without_devlink",
        "igb: no devlink, no eswitch, no link state of VFs",
        "measured on igb; Linux igb_main.c",
    ),
    Rule(
        "firmware_per_card",
        "firmware settings are of the card, whichever port is asked",
        "openshift/sriov-network-operator#218",
    ),
    Rule(
        "firmware_next_boot",
        "set changes next-boot; current only after a start of the card",
        "mstflint mstconfig",
    ),
    Rule(
        "firmware_warm_reboot",
        "some cards do not load settings by a warm reboot",
        "k8snetworkplumbingwg/sriov-network-operator#449",
    ),
    Rule(
        "firmware_reset", "mstfwreset restarts the driver: VFs and bond membership go", "mstflint mstfwreset"
    ),
    Rule("firmware_lockdown", "no query under kernel lockdown", "Mellanox/mstflint#1371"),
    Rule("firmware_sriov_off", "SRIOV_EN=False: no SR-IOV capability, no sriov_totalvfs", "mlxconfig manual"),
    Rule(
        "names_follow_the_kernel",
        "a kernel upgrade renames ports: ens3f0 becomes ens3f0np0",
        "systemd.net-naming-scheme(7)",
    ),
    Rule(
        "acs_from_command_line",
        "config_acs: masks per address; ; must survive GRUB's quoting",
        "Linux kernel-parameters, drivers/pci/pci.c",
    ),
    Rule(
        "udev_at_boot",
        "registers are lost at boot; udev rules set them and name drivers before modules are loaded",
        "udev(7), systemd-udev-trigger.service, ABI sysfs-bus-pci (driver_override)",
    ),
    Rule(
        "ats_needs_firmware",
        "a NIC has the ATS capability only with ATS_ENABLED",
        "NVIDIA AI Enterprise, Optimizing VM configuration",
    ),
    Rule(
        "iommu_groups",
        "with intel_iommu=on: groups, of type identity under iommu=pt",
        "Linux drivers/iommu; measured",
    ),
    Rule(
        "setpci_under_lockdown",
        "no writes to configuration space under lockdown",
        "Linux drivers/pci/pci-sysfs.c",
    ),
    Rule("grub_once", "next_entry of grubenv boots once", "GRUB manual, grub-reboot"),
    Rule(
        "hugepages_at_boot",
        "hugepages= belongs to the hugepagesz= before it; by node 0:64,1:128",
        "Linux kernel-parameters",
    ),
    Rule(
        "hugepages_limit",
        "a pool grows only as far as its node's memory, never shrinks below what is used",
        "Linux hugetlbpage.rst",
    ),
    Rule("volatile_is_lost", "VFs, bonds, /run, bindings, interrupts and timers are gone after a boot", "-"),
    Rule(
        "required_unit_fails", "a unit whose required unit failed is not started (kubelet)", "systemd.unit(5)"
    ),
    Rule(
        "mtu_limits",
        "mtu above 9978 is refused; a bond hands its mtu down",
        "Linux mlx5/core/en_main.c, bond_main.c",
    ),
)
"""All rules."""
