"""Who a node is: keys made by the controller, so that host keys are known and checked from the first login."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path

# Of the user `operator` in the image.
OPERATOR_UID, OPERATOR_GID = 1000, 37


def keypair(path: Path, comment: str) -> str:
    """Make an ed25519 key pair unless it is there; returns the public key line."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)],
            check=True, stdin=subprocess.DEVNULL, capture_output=True,
        )
    return path.with_name(path.name + ".pub").read_text().strip()


def alias(node: str, rack: str) -> str:
    """Name that a node's host key is known by: ports change, and racks have nodes of the same names."""
    return f"{node}.{rack}"


def known_hosts(keys: dict[str, str]) -> str:
    """The known_hosts file for {alias: public key line}."""
    return "".join(f"{name} {' '.join(key.split()[:2])}\n" for name, key in sorted(keys.items()))


def seed(hostname: str, host_key: Path, login_key: str) -> bytes:
    """The tar archive that a node unpacks over its root directory on its first boot."""
    public = host_key.with_name(host_key.name + ".pub").read_text()
    hosts = "127.0.0.1 localhost\n127.0.1.1 " + hostname + "\n::1 localhost ip6-localhost\n"
    files = (
        ("etc/hostname", hostname + "\n", 0o644, 0, 0),
        ("etc/hosts", hosts, 0o644, 0, 0),
        ("etc/ssh/ssh_host_ed25519_key", host_key.read_text(), 0o600, 0, 0),
        ("etc/ssh/ssh_host_ed25519_key.pub", public, 0o644, 0, 0),
        ("root/.ssh/authorized_keys", login_key + "\n", 0o600, 0, 0),
        ("home/operator/.ssh/authorized_keys", login_key + "\n", 0o600, OPERATOR_UID, OPERATOR_GID),
    )
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, text, mode, uid, gid in files:
            data = text.encode()
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.uid, info.gid = len(data), mode, uid, gid
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def ssh_config(hosts: Iterable[tuple[str, int]], rack: str, folder: Path) -> str:
    """OpenSSH client configuration: `ssh -F FILE NODE`."""
    common = (
        "Host *\n  HostName 127.0.0.1\n  User root\n"
        f'  IdentityFile "{folder / "id_ed25519"}"\n  IdentitiesOnly yes\n'
        f'  UserKnownHostsFile "{folder / "known_hosts"}"\n  GlobalKnownHostsFile none\n'
        "  StrictHostKeyChecking yes\n  PasswordAuthentication no\n  LogLevel ERROR\n"
    )
    each = "".join(f"Host {n}\n  Port {port}\n  HostKeyAlias {alias(n, rack)}\n\n" for n, port in hosts)
    return each + common
