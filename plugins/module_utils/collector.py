# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that the probe sends to a host: reads what the observers read, prints it, changes nothing.

It is compiled anew on every host for every probe, so it is small, imports only built-in modules
(`json` alone would double the start of Python) and leaves all understanding to the observers. Links
are followed by hand, inside the root, so that a captured tree reads as its host did.

Output: a line MARK, then one JSON document {"files": {folder: {name: text}}, "links": {path: target},
"errors": {path: reason}, "folders": [path], "commands": {argv joined by blanks: [exit status, stdout, stderr]}}.
Text is UTF-8 with undecodable bytes as lone surrogates.

Commands are for what no file says (netlink: eswitch, VF attributes). They come as templates: {pf} stands for the
address of each function that can have VFs, {mlx5} for those of the driver mlx5_core
(whether they can have VFs or not), {pfnet} for the network devices of both.
"""

from __future__ import annotations

from typing import Collection, Iterable, Sequence

MARK = "NEARMETAL-PROBE 1"
MIN_PYTHON = (3, 9)

SOURCE = r'''
import posix as o
from _json import encode_basestring_ascii as q
F = {}
L = {}
E = {}
D = []
PF = []
Z = {}
C = {"": ""}
FLAGS = o.O_NOFOLLOW | o.O_CLOEXEC | o.O_NONBLOCK
def canon(p):
    # the path with the links of all its parts followed inside the root
    r = C.get(p)
    if r is not None:
        return r
    d, _, n = p.rpartition("/")
    d = canon(d)
    r = C[p] = d + "/" + n
    try:
        t = o.readlink(R + r)
    except OSError:
        return r
    if len(L) > 20000:
        return r
    L[r] = t
    if t[:1] == "/":
        d = ""
    for n in t.split("/"):
        if n == "..":
            d = d.rpartition("/")[0]
        elif n and n != ".":
            d = canon(d + "/" + n)
    C[p] = C[r] = d
    return d
def read(p, quiet=0, whole=0):
    d, _, n = p.rpartition("/")
    return get(canon(d), n, quiet, whole)
def get(d, n, quiet=0, whole=0):
    # a file of a folder that is no link
    p = d + "/" + n
    try:
        f = o.open(R + p, FLAGS)
    except OSError as e:
        if e.errno == 40:
            c = canon(p)
            if c != p:
                return read(c, quiet, whole)
        if e.errno not in (2, 20) and not quiet:
            E[p] = e.strerror
        return None
    try:
        b = o.read(f, 65536)
        if whole or len(b) > 4095:
            a = [b]
            while b and len(a) < 9999:
                b = o.read(f, 65536)
                a.append(b)
            b = b"".join(a)
    except OSError as e:
        if e.errno == 21:
            D.append(p)
        elif not quiet:
            E[p] = e.strerror
        return None
    finally:
        o.close(f)
    t = b.decode("utf-8", "surrogateescape")
    if d in F:
        F[d][n] = t
    else:
        F[d] = {n: t}
    return t
def ls(p):
    d = canon(p)
    try:
        a = o.listdir(R + d or "/")
    except OSError as e:
        if e.errno not in (2, 20):
            E[d] = e.strerror
        return []
    D.append(d)
    return sorted(a)
def have(p):
    d, _, n = p.rpartition("/")
    try:
        o.stat(R + canon(d) + "/" + n)
    except OSError:
        return 0
    D.append(C[d] + "/" + n)
    return 1
def link(p):
    try:
        L[p] = t = o.readlink(R + p)
    except OSError:
        return ""
    return t
def numbered(p, word):
    n = len(word)
    return [x for x in ls(p) if x[:n] == word and x[n:].isdigit()]
def cpus(t):
    s = set()
    for x in t.split(","):
        a, _, b = x.strip().partition("-")
        if a.isdigit():
            s.update(range(int(a), int(b or a) + 1))
    return s
def glob(p):
    # * in any part
    i = p.find("*")
    if i < 0:
        read(p, 0, 1)
        return
    d = p[:p.rfind("/", 0, i)]
    w, s, r = p[len(d) + 1:].partition("/")
    w = w.split("*")
    for n in ls(d):
        k = len(w[0])
        if n[:k] != w[0]:
            continue
        for x in w[1:-1]:
            k = n.find(x, k)
            if k < 0:
                break
            k += len(x)
        if k >= 0 and n.endswith(w[-1]) and len(n) - len(w[-1]) >= k:
            glob(d + "/" + n + s + r)
def topology():
    c = canon("/sys/devices/system/cpu")
    for n in ("/offline", "/present", "/possible", "/isolated", "/nohz_full", "/smt/control", "/smt/active"):
        read(c + n)
    t = get(c, "online")
    c += "/cpu"
    if t:
        a = sorted(cpus(t))
    else:
        a = sorted(int(n[3:]) for n in numbered(c[:-4], "cpu"))
        for i in a:
            D.append(c + str(i))
            get(c + str(i), "online")
    done = set()
    more = ["core_id", "physical_package_id"]
    if a and get(c + "%d/topology" % a[0], "die_id") is not None:
        more.append("die_id")
    sizes = a and get(c + str(a[0]), "cpu_capacity") is not None
    for i in a:
        if i in done:
            continue
        p = c + "%d/topology" % i
        s = get(p, "thread_siblings_list") or get(p, "core_cpus_list")
        if s:
            done |= cpus(s)
        else:
            get(p, "thread_siblings")
        for n in more:
            get(p, n)
        sizes and get(c + str(i), "cpu_capacity")
    read("/sys/devices/cpu_core/cpus")
    read("/sys/devices/cpu_atom/cpus")
def pool(p):
    for n in ls(p):
        for x in ("nr_hugepages", "free_hugepages", "surplus_hugepages"):
            get(p + "/" + n, x)
def memory():
    n = canon("/sys/devices/system/node")
    get(n, "online")
    for x in numbered(n, "node"):
        x = n + "/" + x
        get(x, "cpulist") is None and get(x, "cpumap")
        get(x, "distance")
        get(x, "meminfo")
        pool(x + "/hugepages")
    pool("/sys/kernel/mm/hugepages")
    read("/sys/kernel/mm/transparent_hugepage/enabled")
    for x in ls("/proc/driver/nvidia/gpus"):
        read("/proc/driver/nvidia/gpus/" + x + "/numa_status")
def caps(p):
    # only the words of the capability list: each word is a bus read on real hardware
    try:
        f = o.open(R + p + "/config", o.O_CLOEXEC)
    except OSError as e:
        if e.errno not in (2, 20):
            E[p + "/config"] = e.strerror
        return
    try:
        b = bytearray(o.pread(f, 64, 0))
        def word(at):
            w = o.pread(f, 4, at)
            if len(w) == 4:
                b.extend(bytes(max(0, at + 4 - len(b))))
                b[at:at + 4] = w
                return int.from_bytes(w, "little")
        at = b[52] & 252 if len(b) > 63 and b[6] & 16 else 0
        for _ in range(48):
            w = at and word(at)
            if not w:
                break
            if w & 255 == 16:
                for i in (4, 8, 12, 16):
                    word(at + i)
            at = w >> 8 & 252
        at = 256 if w is not None else 0
        for _ in range(96):
            w = at and word(at)
            if not w or w == 4294967295:
                break
            w & 65535 == 15 and word(at + 4)
            w & 65535 == 13 and word(at + 4)
            at = w >> 20 & 4092
    except OSError as e:
        E[p + "/config"] = e.strerror
        return
    finally:
        o.close(f)
    F.setdefault(p, {})["config"] = b.decode("utf-8", "surrogateescape")
def pci():
    g = "/sys/kernel/iommu_groups"
    groups = ls(g)
    for x in groups:
        get(g + "/" + x, "type") or D.append(g + "/" + x)
    for x in ls("/sys/class/iommu"):
        D.append("/sys/class/iommu/" + x)
    b = "/sys/bus/pci/devices"
    a = set()
    for x in ls(b):
        p = canon(b + "/" + x)
        u = get(p, "uevent")
        k = u and u.find("PCI_CLASS=")
        if u and k >= 0:
            k = u[k + 10:u.find("\n", k)][:-4]
        else:
            k = get(p, "class")
            if k is None:
                have(p)
                continue
            k = k.strip()[2:-4].lstrip("0").upper()
            for n in ("vendor", "device", "subsystem_vendor", "subsystem_device"):
                get(p, n)
            link(p + "/driver")
        get(p, "numa_node") is None and (get(p, "local_cpulist") or get(p, "local_cpus"))
        groups and link(p + "/iommu_group")
        if k not in ("6", "8", "11", "5", "C"):
            v = link(p + "/physfn")
            v and get(p, "driver_override")
            v and get(p, "enable")
            if not v:
                u = u or ""
                n = get(p, "sriov_totalvfs") is not None
                n and get(p, "sriov_numvfs")
                n and get(p, "sriov_drivers_autoprobe")
                # a card whose firmware has SR-IOV off is no PF, but it can be asked
                if n or "DRIVER=mlx5_core" in u.split():
                    PF.append((x, p, u, n))
            if not v and k in ("1", "2", "3", "12", "B"):
                caps(p)
                while k != "1":
                    # the bridges above it: their ACS decides how it reaches its neighbours
                    p = p.rpartition("/")[0]
                    if p in a or p[-2:-1] != ".":
                        break
                    a.add(p)
                    caps(p)
def net():
    b = "/sys/class/net"
    for x in ls(b):
        p = canon(b + "/" + x)
        if p == b + "/" + x:
            D.append(p)
        if "/virtual/" not in p:
            for n in ("address", "mtu", "operstate"):
                get(p, n)
            get(p, "speed", 1)
            link(p + "/master")
    for x in (read(b + "/bonding_masters") or "").split():
        for n in ("/address", "/mtu", "/operstate", "/bonding/mode"):
            read(canon(b + "/" + x) + n)
def irqs():
    t = read("/proc/interrupts", 0, 1)
    if t:
        a = t.split("\n")
        n = a[0].count("CPU")
        b = [""]
        for x in a[1:]:
            i, s, r = x.partition(":")
            i = i.strip()
            if i.isdigit():
                k = 1 + 11 * n
                b.append(i + ": " + (r[k:].strip() if r[k - 1:k] == " " else " ".join(r.split()[n:])))
        F["/proc"]["interrupts"] = "\n".join(b)
    for x in ls("/proc/irq"):
        if x.isdigit():
            x = "/proc/irq/" + x
            s = get(x, "smp_affinity_list")
            if s and ("," in s or "-" in s):
                get(x, "effective_affinity_list")
    read("/proc/irq/default_smp_affinity")
def main():
    try:
        o.listdir(R or "/")
    except OSError as e:
        o.write(1, (M + " ROOT " + e.strerror + "\n").encode())
        return
    try:
        f = o.open(R + "/proc/cpuinfo", o.O_CLOEXEC)
        b = o.read(f, 8192)
        o.close(f)
        F.setdefault("/proc", {})["cpuinfo"] = b.decode("utf-8", "surrogateescape")
    except OSError as e:
        if e.errno != 2:
            E["/proc/cpuinfo"] = e.strerror
    read("/proc/meminfo", 0, 1)
    topology()
    memory()
    pci()
    net()
    irqs()
    for p in P:
        glob(p)
    for p in X:
        have(p)
    K and run_all()
    def obj(d):
        return "{" + ",".join([q(k) + ":" + q(v) for k, v in d.items()]) + "}"
    s = '{"files":{' + ",".join([q(d) + ":" + obj(v) for d, v in F.items()])
    s += '},"links":' + obj(L) + ',"errors":' + obj(E) + ',"folders":[' + ",".join(map(q, D)) + '],"commands":{'
    s += ",".join(["%s:[%d,%s,%s]" % (q(k), a, q(b), q(c)) for k, (a, b, c) in Z.items()]) + "}}\n"
    s = (M + "\n" + s).encode()
    while s:
        s = s[o.write(1, s):]
main()
'''

COMMANDS = r'''
def expanded():
    # the commands with their placeholders filled in
    a = {"{pf}": [x for x, p, u, n in PF if n], "{mlx5}": [x for x, p, u, n in PF if "DRIVER=mlx5_core" in u.split()]}
    # a PF in switchdev mode has its VFs' representors beside its own device
    a["{pfnet}"] = [n for x, p, u, _ in PF for n in ls(p + "/net") if "vf" not in (get(p + "/net/" + n, "phys_port_name", 1) or "")]
    for c in K:
        for h in a:
            if h in " ".join(c):
                for x in a[h]:
                    yield [w.replace(h, x) for w in c]
                break
        else:
            yield c
def run_all():
    # side by side: a firmware query takes a second for each card
    jobs = list(expanded())
    for x, p, u, n in PF:
        get(p, "vpd", 1)
    import subprocess as s
    e = dict(o.environ)
    e.update({b"LC_ALL": b"C", b"PATH": e.get(b"PATH", b"/usr/bin:/bin") + b":/usr/sbin:/sbin"})
    while jobs:
        now, jobs = jobs[:16], jobs[16:]
        for c, i in [(c, start(s, c, e)) for c in now]:
            k = " ".join(c)
            if type(i) is str:
                Z[k] = (127, "", i)
                continue
            try:
                a, b = i.communicate(timeout=T)
            except s.TimeoutExpired:
                i.kill()
                Z[k] = (124, "", "no end after %d s" % T)
                continue
            Z[k] = (i.returncode, a.decode("utf-8", "surrogateescape"), b.decode("utf-8", "surrogateescape"))
    ["printenv", "SSH_CONNECTION"] in K and ssh()
def ssh():
    # sudo hides SSH_CONNECTION; the processes above have it
    n = o.getpid()
    for _ in range(10):
        try:
            f = o.open("/proc/%d/environ" % n, o.O_CLOEXEC)
            b = o.read(f, 65536)
            o.close(f)
            f = o.open("/proc/%d/stat" % n, o.O_CLOEXEC)
            n = int(o.read(f, 4096).rpartition(b")")[2].split()[1])
            o.close(f)
        except OSError:
            return
        for w in b.split(b"\0"):
            if w[:15] == b"SSH_CONNECTION=":
                Z["printenv SSH_CONNECTION"] = (0, w[15:].decode("utf-8", "surrogateescape"), "")
                return
        if n < 2:
            return
def start(s, c, e):
    try:
        return s.Popen(c, stdin=s.DEVNULL, stdout=s.PIPE, stderr=s.PIPE, env=e)
    except OSError as x:
        return "%s: %s" % (c[0], x.strerror)
'''
"""The part of it that runs commands: it travels only where there are some, as it is compiled on every host."""

UNITS = ("init.scope", "system.slice", "user.slice", "machine.slice")
PATHS = (
    *("/sys/fs/cgroup/%s/cpuset.cpus" % unit for unit in UNITS),
    *("/sys/fs/cgroup/%s/cpuset.cpus.effective" % unit for unit in UNITS),
    "/proc/cmdline",
    "/proc/uptime",
    "/proc/version",
    "/proc/sys/kernel/arch",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/random/boot_id",
    "/sys/kernel/security/lockdown",
    "/sys/fs/cgroup/cgroup.controllers",
    "/etc/os-release",
    "/etc/hostname",
    "/var/lib/nearmetal/reboot.json",
)
"""Files that the observers read, besides the topology, PCI, network and interrupts; * in any part."""

EXISTS = (
    "/dev",
    "/dev/kvm",
    "/run/systemd/system",
    "/usr/lib/systemd/systemd",
    "/usr/lib/systemd/system",
    "/etc/systemd/system",
    "/sys/fs/cgroup",
    "/sys/fs/cgroup/system.slice",
    "/sys/fs/cgroup/system.slice/irqbalance.service",
    "/sys/fs/cgroup/systemd/system.slice/irqbalance.service",
    "/usr/lib/systemd/system/irqbalance.service",
    "/lib/systemd/system/irqbalance.service",
    "/etc/systemd/system/irqbalance.service",
    "/sys/fs/cgroup/cpuset",
    "/sys/fs/cgroup/systemd",
    "/sys/fs/cgroup/unified",
    "/sys/firmware/acpi/tables",
    "/sys/firmware/acpi/tables/DMAR",
    "/sys/firmware/acpi/tables/IVRS",
    "/sys/firmware/acpi/tables/IORT",
)
"""Paths of which only the presence counts."""


COMMAND_TIMEOUT = 30
"""Seconds for each command."""


def program(root: str = "/", probe: Iterable[str] = (), commands: Collection[Sequence[str]] = ()) -> str:
    """The program for a host.

    root: the captured tree on it. probe: more paths or globs to read. commands: templates of what to run, which only
    the running system gets.
    """
    where = "" if root.rstrip("/") == "" else root.rstrip("/")
    paths = list(dict.fromkeys([*PATHS, *probe]))
    head = [
        "import sys",
        "M = %r" % MARK,
        "if sys.version_info < %r:" % (MIN_PYTHON,),
        "    print(M + ' OLD ' + sys.version.split()[0])",
        "    sys.exit(3)",
        "R = %r" % where,
        "P = %r" % paths,
        "X = %r" % list(EXISTS),
        "K = %r" % ([] if where else [list(words) for words in commands]),
        "T = %d" % COMMAND_TIMEOUT,
    ]
    source = SOURCE if where or not commands else COMMANDS + SOURCE
    return "\n".join(head) + "\n" + source.replace("    ", " ")
