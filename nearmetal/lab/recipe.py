"""What the disk image of a node is made of.

The image is a Debian system with two boot loaders (GRUB for BIOS and a removable GRUB for EFI) that
share one grub.cfg, so that /etc/default/grub, update-grub and a reboot really change /proc/cmdline.
What a role may count on in every node:

- systemd, udev, OpenSSH, Python 3, iproute2, ethtool, pciutils, numactl, irqbalance (running),
  initramfs-tools, driverctl, rdma-core, nfs-common, zstd, cpio, sudo;
- libvirt (socket activated: `virsh` starts it) and qemu-system-x86, /dev/kvm through nested SVM;
- busybox-static, stress-ng and the kernel with its modules, to build a nested guest from;
- `root` with the key of the rack, and `operator`, who may use sudo without a password.

Nothing of a node's identity is in the image: machine-id, host name, host keys and authorised keys come
with the seed that each node is started with (see `identity`).
"""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import dataclass

SUITE = "trixie"

PACKAGES = (
    "linux-image-amd64", "systemd", "systemd-sysv", "udev", "dbus", "kmod",
    "openssh-server", "sudo", "iproute2", "iputils-ping", "ethtool", "pciutils", "python3", "numactl",
    "irqbalance", "initramfs-tools", "grub2-common", "grub-pc-bin", "grub-efi-amd64-bin", "driverctl",
    "qemu-system-x86", "qemu-utils", "libvirt-daemon-system", "libvirt-clients", "busybox-static",
    "cpio", "stress-ng", "zstd", "rdma-core", "nfs-common", "less", "procps", "util-linux-extra",
    "e2fsprogs",
)  # fmt: skip

# Whole families of drivers that no node of a rack of servers has; they are most of the modules' size.
UNUSED_MODULES = ("drivers/gpu", "drivers/media", "drivers/net/wireless", "drivers/staging", "sound")
UNUSED_PATHS = (
    "/usr/share/doc/*",
    "/usr/share/man/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/usr/share/qemu/edk2-*",
)

#: Without these, one of two nodes that boot side by side under TCG panicked or hung.
STABLE_ARGUMENTS = "no_timer_check tsc=reliable"
#: An emulated processor leaks nothing, and pays for each of these with a fifth of the time of a boot.
QUICK_ARGUMENTS = "mitigations=off"
# Not quiet: a kernel that talks is how a boot that hangs is told from one that is slow.
CONSOLE_ARGUMENTS = "console=tty0 console=ttyS0,115200"

SEED = "opt/nearmetal/seed"
SEEDED = "/etc/nearmetal-lab-seeded"

DISK_GIB = 8
#: First sectors (of 512 bytes) of the three partitions: BIOS boot, EFI system, root.
BIOS_SECTOR, ESP_SECTOR, ROOT_SECTOR = 2048, 4096, 4096 + 65536

MASKED = (
    "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer",
    "e2scrub_reap.service", "fstrim.timer", "systemd-networkd-wait-online.service",
    "libvirt-guests.service", "getty@tty1.service", "systemd-binfmt.service",
    "grub-common.service", "ldconfig.service", "systemd-hwdb-update.service", "systemd-logind.service",
)  # fmt: skip

# What a role turns on when it needs it; each costs seconds of every boot.
DISABLED = (
    "libvirtd.service", "virtlogd.service", "rpcbind.service", "rpcbind.socket", "nfs-client.target",
    "nfs-blkmap.service", "sshd-keygen.service", "systemd-pstore.service",
)  # fmt: skip

FILES: dict[str, str] = {
    "etc/fstab": "UUID=@ROOT_UUID@ / ext4 errors=remount-ro 0 1\nPARTLABEL=esp /boot/efi vfat noauto 0 0\n",
    "etc/resolv.conf": "nameserver 10.0.2.3\n",
    "etc/systemd/network/10-mgmt.link": "[Match]\nDriver=virtio_net\n\n[Link]\nName=mgmt0\n",
    "etc/systemd/network/20-mgmt.network": (
        "[Match]\nName=mgmt0\n\n[Link]\nRequiredForOnline=no\n\n"
        "[Network]\nDHCP=ipv4\nIPv6AcceptRA=no\nLinkLocalAddressing=no\n\n[DHCPv4]\nUseHostname=no\n"
    ),
    "etc/initramfs-tools/conf.d/nearmetal-lab": "MODULES=list\nCOMPRESS=zstd\nFSTYPE=ext4\n",
    "usr/share/initramfs-tools/modules.d/nearmetal-lab": "virtio_pci\nvirtio_blk\next4\ncrc32c_generic\n",
    "etc/default/grub": (
        "GRUB_DEFAULT=0\nGRUB_TIMEOUT=1\nGRUB_DISTRIBUTOR=`( . /etc/os-release && echo ${NAME} )`\n"
        f'GRUB_CMDLINE_LINUX_DEFAULT="{STABLE_ARGUMENTS} {QUICK_ARGUMENTS}"\n'
        f'GRUB_CMDLINE_LINUX="{CONSOLE_ARGUMENTS}"\n'
        'GRUB_TERMINAL="console serial"\nGRUB_SERIAL_COMMAND="serial --unit=0 --speed=115200"\n'
    ),
    "etc/ssh/sshd_config.d/nearmetal-lab.conf": (
        "HostKey /etc/ssh/ssh_host_ed25519_key\nPermitRootLogin prohibit-password\n"
        "PasswordAuthentication no\nUseDNS no\n"
    ),
    "etc/sudoers.d/operator": "operator ALL=(ALL:ALL) NOPASSWD: ALL\n",
    "etc/systemd/journald.conf.d/nearmetal-lab.conf": "[Journal]\nSystemMaxUse=64M\n",
    "etc/systemd/system/nearmetal-lab-seed.service": (
        "[Unit]\nDescription=Identity of this node of the virtual rack\nDefaultDependencies=no\n"
        f"ConditionPathExists=!{SEEDED}\n"
        "After=systemd-remount-fs.service systemd-tmpfiles-setup-dev.service\n"
        "Before=sysinit.target systemd-networkd.service\nWants=systemd-remount-fs.service\n\n"
        "[Service]\nType=oneshot\nExecStart=/usr/local/sbin/nearmetal-lab-seed\nRemainAfterExit=yes\n\n"
        "[Install]\nWantedBy=sysinit.target\n"
    ),
    "usr/local/sbin/nearmetal-lab-seed": (
        "#!/bin/sh\nset -eu\nmodprobe qemu_fw_cfg\n"
        f"tar -xpf /sys/firmware/qemu_fw_cfg/by_name/{SEED}/raw -C / --no-overwrite-dir\n"
        f"hostname -F /etc/hostname\ntouch {SEEDED}\n"
    ),
}

MODES = {"usr/local/sbin/nearmetal-lab-seed": 0o755, "etc/sudoers.d/operator": 0o440}

# Runs inside the new system. grub-probe cannot look at a disk that does not exist yet, so while the first
# grub.cfg is made it is replaced by answers about the disk to come; afterwards the real one is back.
SETUP = r"""#!/bin/sh
set -eu
export DEBIAN_FRONTEND=noninteractive
id operator >/dev/null 2>&1 || useradd -m -N -g operator -s /bin/bash operator
install -d -m 700 /root/.ssh
install -d -m 700 -o operator -g operator /home/operator/.ssh
mkdir -p /boot/efi
rm -f /etc/ssh/ssh_host_* /var/lib/dbus/machine-id /etc/apt/apt.conf.d/99mmdebstrap
: > /etc/machine-id
systemctl mask @MASKED@
systemctl disable @DISABLED@
systemctl enable systemd-networkd.service nearmetal-lab-seed.service ssh.service irqbalance.service libvirtd.socket
update-initramfs -u -k all

mkdir -p /boot/grub /nearmetal-lab-out
cp -r /usr/lib/grub/i386-pc /boot/grub/
cat > /tmp/grub-probe <<'PROBE'
#!/bin/sh
case " $* " in
*target=device*) echo /dev/vda3 ;;
*target=fs_uuid*) echo @ROOT_UUID@ ;;
*target=partuuid*) echo @ROOT_PARTUUID@ ;;
*target=fs\ *) echo ext2 ;;
*target=partmap*) echo gpt ;;
*target=drive*) echo '(hd0,gpt3)' ;;
*target=abstraction*) ;;
*target=hints_string*) echo --hint-bios=hd0,gpt3 --hint-efi=hd0,gpt3 ;;
*) exit 1 ;;
esac
PROBE
chmod 755 /tmp/grub-probe
mv /usr/sbin/grub-probe /usr/sbin/grub-probe.real
mv /tmp/grub-probe /usr/sbin/grub-probe
mkdir -p /dev/disk/by-uuid
touch /dev/disk/by-uuid/@ROOT_UUID@
update-grub
rm -f /dev/disk/by-uuid/@ROOT_UUID@
mv /usr/sbin/grub-probe.real /usr/sbin/grub-probe
grep -q 'root=UUID=@ROOT_UUID@' /boot/grub/grub.cfg

cd /nearmetal-lab-out
cat > early.cfg <<'EARLY'
search --no-floppy --fs-uuid --set=root @ROOT_UUID@
set prefix=($root)/boot/grub
EARLY
cp /usr/lib/grub/i386-pc/boot.img .
cp -L /vmlinuz vmlinuz 2>/dev/null || cp /boot/vmlinuz-* vmlinuz
grub-mkimage -O i386-pc -c early.cfg -p /boot/grub -o core.img biosdisk part_gpt ext2 search search_fs_uuid
grub-mkimage -O x86_64-efi -c early.cfg -p /boot/grub -o bootx64.efi \
  part_gpt part_msdos ext2 fat search search_fs_uuid normal linux configfile echo test all_video efi_gop gzio \
  serial terminal terminfo loadenv minicmd gfxterm font boot halt reboot
rm -rf early.cfg /var/lib/apt/lists/* /var/cache/apt/* /var/log/* /tmp/*
# What a first boot would do for new packages has been done above.
journalctl --update-catalog || true
touch /etc/.updated /var/.updated
"""


# Makes the root file system inside the disk from the tree that mmdebstrap packed. Run as (a kind of) root, so
# that every file keeps its owner. GRUB does not know the two features that are switched off.
MAKE_ROOT = """set -eu
mkdir tree
tar -xpf root.tar -C tree --numeric-owner
mv tree/nearmetal-lab-out out
rm root.tar
mke2fs -q -t ext4 -b 4096 -L root -U "$1" -O ^metadata_csum_seed,^orphan_file \\
  -E "offset=$2,lazy_itable_init=1,lazy_journal_init=1" -d tree disk.raw "$3"
rm -rf tree
"""


@dataclass(frozen=True)
class Recipe:
    """Everything the content of the image depends on; two equal recipes give one cached image."""

    suite: str = SUITE
    packages: tuple[str, ...] = PACKAGES

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that name the image."""
        files = [FILES, MODES, SETUP, MAKE_ROOT, MASKED, DISABLED, UNUSED_MODULES, UNUSED_PATHS]
        parts = [self.suite, self.packages, files, DISK_GIB, BIOS_SECTOR, ESP_SECTOR, ROOT_SECTOR]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    def _uuid(self, of: str) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"nearmetal-lab/{self.digest}/{of}"))

    @property
    def root_uuid(self) -> str:
        """UUID of the root file system."""
        return self._uuid("root")

    @property
    def root_partuuid(self) -> str:
        """GUID of the root partition."""
        return self._uuid("root-partition")

    def fill(self, text: str) -> str:
        """Put the recipe's values into a file or script of the image."""
        values = {"ROOT_UUID": self.root_uuid, "ROOT_PARTUUID": self.root_partuuid, "MASKED": " ".join(MASKED)}
        values["DISABLED"] = " ".join(DISABLED)
        for name, value in values.items():
            text = text.replace(f"@{name}@", value)
        return text

    def dpkg_options(self) -> list[str]:
        """Lines of dpkg configuration that leave out what no node needs."""
        modules = [f"{top}/modules/*/kernel/{m}/*" for m in UNUSED_MODULES for top in ("/lib", "/usr/lib")]
        return [f"path-exclude={path}" for path in (*UNUSED_PATHS, *modules)]
