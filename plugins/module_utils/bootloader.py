# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which boot loader a host has, what it will pass to the kernel, and how that is changed."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass, field
from typing import List, Optional, Sequence, Tuple

from . import boot_ostree, cmdline
from .boot_defaults import os_ids
from .boot_entries import GrubEntries, SystemdBoot
from .boot_grub import Grub, find_cfg
from .bootplan import (
    FileEdit,
    Loader,
    LoaderError,
    Plan,
    Reading,
    Sealed,
    commit,
    line_met,
    restore,
    text_or_none,
)
from .cmdline import Request
from .grubscript import Menu
from .host import Host
from .state import Boot

__all__ = ["PROBE", "LoaderError", "Outcome", "ensure", "observe", "open_loader"]

_RED_HAT = frozenset(("rhel", "fedora", "centos"))
ESPS = ("/efi", "/boot/efi", "/boot")
_EFIVARS = "/sys/firmware/efi/efivars/"
_LOADER_GUID = "-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
_EFI_NAMES = ("LoaderInfo", "LoaderEntryDefault", "LoaderEntryOneShot", "StubInfo")
_ESP_FILES = ("/EFI/*/grub.cfg", "/EFI/*/grubenv", "/loader/loader.conf", "/loader/entries/*.conf")
_FOREIGN = (
    ("/etc/zipl.conf", "zipl writes the boot record of this machine"),
    ("/boot/extlinux/extlinux.conf", "extlinux or U-Boot boots this machine"),
    ("/boot/refind_linux.conf", "rEFInd boots this machine"),
    ("/boot/firmware/cmdline.txt", "the firmware of a Raspberry Pi boots this machine"),
)

PROBE: Tuple[str, ...] = (
    "/etc/os-release",
    "/etc/default/grub",
    "/etc/default/grub.d/*.cfg",
    "/etc/kernel/cmdline",
    "/usr/lib/kernel/cmdline",
    "/boot/grub/grub.cfg",
    "/boot/grub2/grub.cfg",
    "/boot/grub/grubenv",
    "/boot/grub2/grubenv",
    *(esp + path for esp in ESPS for path in _ESP_FILES),
    *(_EFIVARS + name + _LOADER_GUID for name in _EFI_NAMES),
    "/run/ostree-booted",
    "/ostree/repo/config",
    "/run/systemd/container",
    "/run/.containerenv",
    "/.dockerenv",
    *(path for path, _why in _FOREIGN),
)
"""Files that `observe` reads, for the probe. All are small texts, or EFI variables of some bytes."""


def observe(host: Host) -> Boot:
    """The `boot` section of the state. Raises HostError or LoaderError where it cannot be told."""
    reading = open_loader(host).read()
    return {
        "loader": reading.loader,
        "configured": None if reading.sealed else reading.configured,
        "sealed": reading.sealed,
        "sources": reading.sources,
        "others": reading.others,
    }


def open_loader(host: Host) -> Loader:
    """The boot loader of a host; `Sealed` where its arguments cannot be changed from inside."""
    container = _container(host)
    if container:
        return Sealed(container)
    stub = _efi_text(host, "StubInfo")
    if stub:
        return Sealed(
            "a unified kernel image was booted (%s): its arguments are sealed inside the image. Change "
            "/etc/kernel/cmdline and build the image anew, or add a signed addon" % stub, "uki",
        )
    if boot_ostree.present(host):
        if host.live and host.exists(boot_ostree.TOOL):
            return boot_ostree.RpmOstree(host)
        return boot_ostree.OstreeEntries(host, boot_ostree.FOLDER)
    return _systemd_boot(host) or _grub(host) or _entries_alone(host) or _unknown(host)


def _container(host: Host) -> str:
    if host.live:
        for path in ("/run/systemd/container", "/run/.containerenv", "/.dockerenv"):
            if host.exists(path):
                return "this is a container (%s is there): its kernel is booted by the host below it" % path
    return ""


def _efi_text(host: Host, name: str) -> str:
    """Text of one of the boot loader's EFI variables: 4 bytes of attributes, then UTF-16."""
    path = _EFIVARS + name + _LOADER_GUID
    if not host.exists(path):
        return ""
    return host.read_bytes(path)[4:].decode("utf-16-le", "replace").rstrip("\0")


def _systemd_boot(host: Host) -> Optional[Loader]:
    """Where the running system was booted by it, or nothing speaks of GRUB."""
    booted = _efi_text(host, "LoaderInfo").startswith("systemd-boot")
    if not booted and (_has_grub(host) or not any(host.exists(e + "/loader/loader.conf") for e in ESPS)):
        return None
    ukis = _unified(host)
    for esp in ESPS:
        folder = esp + "/loader/entries"
        if not _has_entries(host, esp):
            continue
        chosen = (_efi_text(host, "LoaderEntryOneShot"), _efi_text(host, "LoaderEntryDefault"))
        conf = text_or_none(host, esp + "/loader/loader.conf") or ""
        patterns = [*chosen, *re.findall(r"^[ \t]*default[ \t]+(\S+)", conf, re.MULTILINE)]
        found = (_matching(pattern, [*host.names(folder), *ukis]) for pattern in patterns if pattern != "@saved")
        sealed = next((path for path in found if path), "")
        sealed = sealed if sealed in ukis else ""
        return _uki(sealed) if sealed else SystemdBoot(host, folder, chosen)
    return _uki(ukis[0] if ukis else "")


def _matching(pattern: str, paths: Sequence[str]) -> str:
    """The first file that a pattern of names means, "" where there is none."""
    return next((path for path in paths if fnmatch.fnmatchcase(path.rpartition("/")[2], pattern)), "")


def _uki(path: str) -> Loader:
    what = "the default entry is the unified kernel image %s" % path if path else (
        "systemd-boot has no entry file, so it boots a unified kernel image or another program")
    return Sealed(
        "%s: its arguments are sealed inside the image. Change /etc/kernel/cmdline and build the image anew, or "
        "add a signed addon" % what, "uki",
    )


def _unified(host: Host) -> List[str]:
    return ["%s/EFI/Linux/%s" % (esp, name) for esp in ESPS for name in host.names(esp + "/EFI/Linux")
            if name.lower().endswith(".efi")]  # fmt: skip


def _has_grub(host: Host) -> bool:
    return any(host.exists("/boot/%s/%s" % (f, n)) for f in ("grub", "grub2") for n in ("grub.cfg", "grubenv"))


def _grub(host: Host) -> Optional[Loader]:
    cfg, _text, menu = find_cfg(host)
    defaults = text_or_none(host, "/etc/default/grub")
    if _has_entries(host, "/boot") and _grub_reads_entries(host, menu, defaults or ""):
        return GrubEntries(host, "/boot/loader/entries")
    others = _unified(host) or any(_has_entries(host, esp) for esp in ESPS)
    if cfg or (defaults is not None and not host.live and not others):
        return Grub(host)
    return None


def _grub_reads_entries(host: Host, menu: Optional[Menu], defaults: str) -> bool:
    """By its menu; where there is none, by what only Red Hat's GRUB has."""
    if menu is not None and (menu.blscfg or menu.entries):
        return menu.blscfg
    return bool(
        re.search(r"^\s*GRUB_ENABLE_BLSCFG=[\"']?true", defaults, re.MULTILINE)
        or host.exists("/boot/grub2/grubenv")
        or (defaults and _RED_HAT & set(os_ids(host)))
    )


def _has_entries(host: Host, esp: str) -> bool:
    return any(name.endswith(".conf") for name in host.names(esp + "/loader/entries"))


def _entries_alone(host: Host) -> Optional[Loader]:
    """Entries without any trace of a loader, as in a small tree: the distribution tells whose they are."""
    red_hat = _RED_HAT & set(os_ids(host))
    for esp in ESPS:
        folder = esp + "/loader/entries"
        if _has_entries(host, esp):
            return GrubEntries(host, folder) if red_hat and esp == "/boot" else SystemdBoot(host, folder)
    ukis = _unified(host)
    return _uki(ukis[0]) if ukis else None


def _unknown(host: Host) -> Loader:
    for path, why in _FOREIGN:
        if host.exists(path):
            return Sealed("%s (%s is there), which is not supported" % (why, path))
    return Sealed(
        "no boot loader's configuration was found (no grub.cfg, no boot loader entries): the arguments come from "
        "outside, by PXE, by a hypervisor or by the firmware"
    )


@dataclass
class Outcome:
    """What `ensure` did, or would do."""

    changed: bool
    before: Optional[str]
    after: Optional[str]
    running: Optional[str]
    reboot_required: bool
    loader: str
    edits: List[FileEdit] = field(default_factory=list)
    warnings: List[str] = field(default_factory=list)


def ensure(host: Host, args: Sequence[str], absent: Sequence[str], dry: bool = False) -> Outcome:
    """Make the configured command line as asked; with `dry`, only say what it would become.

    Raises ValueError for a bad request, LoaderError where it cannot be done (then nothing is changed),
    HostError where something cannot be read.
    """
    wanted = cmdline.request(args, absent)
    running = text_or_none(host, "/proc/cmdline")
    running = None if running is None else running.strip()
    in_force = running is not None and cmdline.lacking(cmdline.parse(running), wanted) == ([], [])
    reading, plan = _plan(host, wanted)
    if plan is None:
        if in_force or not (args or absent):
            return Outcome(False, None, None, running, False, reading.loader, warnings=[reading.sealed])
        raise LoaderError("kernel arguments cannot be changed on this host: %s" % reading.sealed)
    after = plan.after
    if plan and not dry:
        with host.lock():
            reading, plan = _plan(host, wanted)  # somebody may have been faster
            if plan is None:
                raise LoaderError(reading.sealed)
            after = _carry_out(host, wanted, plan).configured or ""
    return Outcome(
        bool(plan), reading.configured, after, running, running is not None and not in_force,
        reading.loader, plan.edits, plan.warnings,
    )


def _plan(host: Host, wanted: Request) -> Tuple[Reading, Optional[Plan]]:
    loader = open_loader(host)
    reading = loader.read()
    if reading.sealed:
        return reading, None
    if reading.met(wanted):
        return reading, Plan(after=reading.configured or "")
    return reading, loader.plan(wanted)


def _carry_out(host: Host, wanted: Request, plan: Plan) -> Reading:
    """Write, then read again what the loader will use; anything else than asked is undone."""
    if not plan:
        return open_loader(host).read()
    former = commit(host, plan)
    try:
        reading = open_loader(host).confirm(wanted)
    except LoaderError as err:
        raise LoaderError("%s. %s" % (err, restore(host, former))) from err
    if reading.sealed or not line_met(reading.configured or "", wanted):
        asked = cmdline.join(word for words in wanted.groups.values() for word in words)
        asked += "".join(" (no %s)" % name for name in (*wanted.names, *wanted.texts))
        raise LoaderError(
            "asked for %s, but %s would pass %s%s. %s" % (
                asked, reading.loader, reading.configured, ": " + reading.sealed if reading.sealed else "",
                restore(host, former)))  # fmt: skip
    return reading
