"""Small trees of hosts with different boot loaders, and a host that pretends to be live."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ansible_collections.nearmetal.rack.plugins.module_utils.grubenv import HEADER
from ansible_collections.nearmetal.rack.plugins.module_utils.host import FileHost, HostError, Result

DEBIAN_GRUB = """\
# If you change this file, run 'update-grub' afterwards.
GRUB_DEFAULT=0
GRUB_DISTRIBUTOR=`( . /etc/os-release; echo ${NAME:-Debian} ) 2>/dev/null || echo Debian`
GRUB_CMDLINE_LINUX_DEFAULT="quiet"
GRUB_CMDLINE_LINUX="net.ifnames=0"
"""


def debian_cfg(linux: str, default: str = "0", default_args: str = "quiet") -> str:
    """A grub.cfg as update-grub writes it: `linux` are the words of GRUB_CMDLINE_LINUX."""
    args = " ".join(("root=UUID=1-2 ro " + linux + " " + default_args).split())
    rescue = " ".join(("root=UUID=1-2 ro single " + linux).split())
    return f"""\
### BEGIN /etc/grub.d/00_header ###
if [ "${{next_entry}}" ] ; then
   set default="${{next_entry}}"
   set next_entry=
else
   set default="{default}"
fi
function load_video {{
  if [ x$feature_all_video_module = xy ]; then
    insmod all_video
  fi
}}
### END /etc/grub.d/00_header ###
### BEGIN /etc/grub.d/10_linux ###
menuentry 'Debian GNU/Linux' --class debian $menuentry_id_option 'gnulinux-simple-1-2' {{
\tload_video
\techo\t'Loading Linux 6.12 ...'
\tlinux\t/boot/vmlinuz-6.12 {args}
\tinitrd\t/boot/initrd.img-6.12
}}
submenu 'Advanced options for Debian GNU/Linux' $menuentry_id_option 'gnulinux-advanced-1-2' {{
\tmenuentry 'Debian GNU/Linux, with Linux 6.12' --class debian $menuentry_id_option 'gnulinux-6.12-advanced-1-2' {{
\t\tlinux\t/boot/vmlinuz-6.12 {args}
\t}}
\tmenuentry 'Debian GNU/Linux, with Linux 6.12 (recovery mode)' $menuentry_id_option 'gnulinux-6.12-recovery-1-2' {{
\t\tlinux\t/boot/vmlinuz-6.12 {rescue}
\t}}
}}
### END /etc/grub.d/10_linux ###
### BEGIN /etc/grub.d/40_custom ###
menuentry 'Other' --id other {{
\tlinux /other {args} other
}}
menuentry 'Chain' --id chain {{
\tchainloader /EFI/x.efi
}}
### END /etc/grub.d/40_custom ###
"""


def write(root: Path, files: dict[str, str]) -> FileHost:
    """The tree with these files."""
    for path, text in files.items():
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return FileHost(str(root))


def debian(root: Path, cfg: bool = True, **more: str) -> FileHost:
    """Debian with GRUB. Keys of `more` are FOLDER names of files below, `__` for `/`."""
    files = {"etc/os-release": "ID=debian\n", "etc/default/grub": DEBIAN_GRUB}
    if cfg:
        files["boot/grub/grub.cfg"] = debian_cfg("net.ifnames=0")
    return write(root, {**files, **{name.replace("__", "/"): text for name, text in more.items()}})


def block(*lines: str) -> str:
    """A GRUB environment block."""
    return (HEADER + "".join(line + "\n" for line in lines)).ljust(1024, "#")


def entry(version: str, options: str, title: str = "Red Hat Enterprise Linux") -> str:
    """A boot loader entry."""
    return (
        f"title {title} ({version})\nversion {version}\nlinux /vmlinuz-{version}\ninitrd /initramfs-{version}.img\n"
        f"options {options}\ngrub_users $grub_users\ngrub_class rhel\n"
    )


RHEL_RELEASE = 'ID="rhel"\nID_LIKE="fedora"\nVERSION_ID="9.4"\n'


def rhel9(root: Path, options: str = "root=/dev/mapper/r ro rhgb quiet $tuned_params", **more: str) -> FileHost:
    """RHEL 9: two kernels and a rescue entry."""
    folder = "boot/loader/entries/"
    files = {
        "etc/os-release": RHEL_RELEASE,
        "etc/default/grub": 'GRUB_DEFAULT=saved\nGRUB_CMDLINE_LINUX="rhgb quiet"\nGRUB_ENABLE_BLSCFG=true\n',
        "etc/kernel/cmdline": options.replace(" $tuned_params", "") + "\n",
        folder + "aa-5.14.0-70.el9.x86_64.conf": entry("5.14.0-70.el9.x86_64", options),
        folder + "aa-5.14.0-427.el9.x86_64.conf": entry("5.14.0-427.el9.x86_64", options),
        folder + "aa-0-rescue.conf": entry("0-rescue-aa", "root=/dev/mapper/r ro"),
        "boot/grub2/grubenv": block("saved_entry=aa-5.14.0-427.el9.x86_64"),
        "boot/grub2/grub.cfg": 'set default="${saved_entry}"\ninsmod blscfg\nblscfg\n',
    }
    return write(root, {**files, **{name.replace("__", "/"): text for name, text in more.items()}})


def rhel8(root: Path, env: str = "kernelopts=root=/dev/mapper/r ro crashkernel=auto quiet") -> FileHost:
    """RHEL 8: the arguments stand in the environment block, which is a link to the ESP."""
    folder = "boot/loader/entries/"
    host = write(
        root,
        {
            "etc/os-release": RHEL_RELEASE.replace("9.4", "8.10"),
            "etc/default/grub": 'GRUB_CMDLINE_LINUX="crashkernel=auto quiet"\nGRUB_ENABLE_BLSCFG=true\n',
            folder + "bb-4.18.0-553.el8.x86_64.conf": entry("4.18.0-553.el8.x86_64", "$kernelopts $tuned_params"),
            folder + "bb-4.18.0-80.el8.x86_64.conf": entry("4.18.0-80.el8.x86_64", "$kernelopts $tuned_params"),
            folder + "bb-0-rescue.conf": entry("0-rescue-bb", "$kernelopts"),
            "boot/efi/EFI/redhat/grubenv": block("saved_entry=bb-4.18.0-553.el8.x86_64", env),
        },
    )
    (root / "boot/grub2").mkdir(parents=True)
    (root / "boot/grub2/grubenv").symlink_to("../efi/EFI/redhat/grubenv")
    return host


class Pretender(FileHost):
    """A tree that claims to be a live host. `commands` maps a command's base name to what it does."""

    def __init__(self, root: str, commands: dict[str, Callable[[FileHost, Sequence[str]], Result]]) -> None:
        super().__init__(root)
        self.commands = commands
        self.ran: list[list[str]] = []
        self.writes_left = 10**6

    @property
    def live(self) -> bool:  # type: ignore[override]
        """Only commands are asked about it."""
        return self._live

    @live.setter
    def live(self, value: bool) -> None:
        self._live = True

    def _at(self, path: str, follow: bool = True) -> str:
        self._live = False
        try:
            return super()._at(path, follow)
        finally:
            self._live = True

    def write(
        self, path: str, text: str, mode: int | None = None, in_place: bool = False, backup: bool = True
    ) -> None:
        """Fail as a full disk does: nothing new fits, what is there may be overwritten."""
        if not (in_place and not backup):
            if not self.writes_left:
                raise HostError(path, "cannot write: No space left on device")
            self.writes_left -= 1
        super().write(path, text, mode, in_place, backup)

    def run(self, argv: Sequence[str], timeout: float = 300, stdin: str = "") -> Result:
        """One of `commands`."""
        self.ran.append(list(argv))
        return self.commands[argv[0].rpartition("/")[2]](FileHost(self.root), argv)

    def lock(self):  # type: ignore[no-untyped-def]  # noqa: ANN201
        """No lock of this machine."""
        return FileHost(self.root).lock()
