"""Take what identifies a machine or a person out of captured files, the same value always the same way.

A pseudonym has the form of what it stands for, so that parsers read the capture as they read the host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ansible_collections.nearmetal.rack.plugins.module_utils.secrets import hide

KINDS = ("serials", "macs", "addresses", "uuids", "hostnames", "secrets")

_HEX = "[0-9a-fA-F]"
MAC = re.compile(rf"(?<![\w:.-]){_HEX}{{2}}(?:[:-]{_HEX}{{2}}){{5,19}}(?![\w:-])")
UUID = re.compile(rf"(?<![\w]){_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}(?![\w])")
MACHINE_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")
PART_ID = re.compile(rf"(?<=UUID=)(?:{_HEX}{{4}}-{_HEX}{{4}}|{_HEX}{{8}}-[0-9]{{2}}|{_HEX}{{8,16}})(?![\w-])")
IPV4 = re.compile(r"(?<![\w.-])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w.-])")
IPV6 = re.compile(rf"(?<=\[){_HEX}{{0,4}}(?::{_HEX}{{0,4}}){{2,7}}(?=\])")
URL_HOST = re.compile(r"(?<=://)[^/\s\"'@:\[]+(?=[/:\s\"']|$)")
URL_USER = re.compile(r"(?<=://)[^/\s\"'@]+(?=@)")
NAMES = re.compile(r"\b(?:iqn|eui|naa|nqn)\.[\w.:-]+|(?<=/by-id/)[\w.:+-]+|(?<=\bserial=)[\w-]{6,}|\bppin\s*[:=]\s*0x[0-9a-f]+")
SECRET_WORD = re.compile(
    r"(?i)([\w.-]*(?:passw|passphrase|pwd|secret|token|api[_-]?key|credential|psk)[\w.-]*\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s\"']+)"
)
GRUB_PASSWORD = re.compile(r"(?m)^(\s*password(?:_pbkdf2)?\s+)\S+\s+\S+")
PBKDF2 = re.compile(r"grub\.pbkdf2\.\S+")
BUILDER = re.compile(r"\(\S+@\S+\)")
HOSTNAME_FILES = ("/proc/sys/kernel/hostname", "/etc/hostname")
VERSIONS = ("/proc/version", "/proc/sys/kernel/osrelease")
COMMON_NAMES = frozenset(("localhost", "localhost.localdomain", "linux", "debian", "ubuntu", "fedora", "root", "host"))


class Scrubber:
    """Replaces values of the kinds that are not kept. One instance for one capture."""

    def __init__(self, keep: Iterable[str] = (), hostnames: Iterable[str] = ()) -> None:
        unknown = sorted(set(keep) - set(KINDS))
        if unknown:
            raise ValueError(f"{', '.join(unknown)}: not one of {', '.join(KINDS)}")
        self.kinds = frozenset(KINDS) - set(keep)
        self._names: dict[str, str] = {}
        self._count: dict[str, int] = {}
        names = {name.strip() for name in hostnames} | {name.strip().partition(".")[0] for name in hostnames}
        words = sorted((n for n in names if len(n) > 2 and n not in COMMON_NAMES), key=len, reverse=True)
        self._hostname = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, words))})(?![\w-])") if words else None

    def known(self, kind: str, value: str, form: str) -> str:
        """The pseudonym of a value, made by the form where it has none yet."""
        known = self._names.get(value.lower())
        if known is None:
            number = self._count[kind] = self._count.get(kind, 0) + 1
            known = self._names[value.lower()] = form % number
        return known

    def text(self, path: str, text: str) -> str:
        """The content of a file."""
        if "hostnames" in self.kinds and path in HOSTNAME_FILES:
            return "host\n"
        if "secrets" in self.kinds:
            text = hide(path, text)
        if path in VERSIONS:
            return BUILDER.sub("(builder@host)", text) if "hostnames" in self.kinds else text
        return self.line(text)

    def line(self, text: str) -> str:
        """Any text, a path too."""
        if "secrets" in self.kinds:
            text = PBKDF2.sub("REDACTED", GRUB_PASSWORD.sub(r"\1user REDACTED", text))
            text = URL_USER.sub("REDACTED", SECRET_WORD.sub(r"\1REDACTED", text))
        if "uuids" in self.kinds:
            text = UUID.sub(lambda m: self.known("uuid", m[0], "00000000-0000-4000-8000-%012x"), text)
            text = MACHINE_ID.sub(lambda m: self.known("machine", m[0], "%032x"), text)
            text = PART_ID.sub(lambda m: self.known("part", m[0], "0000-%04X"), text)
        if "serials" in self.kinds:
            text = NAMES.sub(lambda m: self.known("serial", m[0], "serial-%d"), text)
        if "macs" in self.kinds:
            text = MAC.sub(self._mac, text)
        if "addresses" in self.kinds:
            text = IPV4.sub(self._ipv4, text)
            text = IPV6.sub(lambda m: self.known("ipv6", m[0], "2001:db8::%x"), text)
            text = URL_HOST.sub(lambda m: self.known("url", m[0], "host%d.example"), text)
        if self._hostname is not None and "hostnames" in self.kinds:
            text = self._hostname.sub("host", text)
        return text

    def _mac(self, match: re.Match[str]) -> str:
        octets = match[0].replace("-", ":")
        if not octets.replace(":", "").strip("0") or not octets.replace(":", "").lower().strip("f"):
            return match[0]
        pseudonym = self.known("mac", octets, "02:00:00:00:%04x")
        head, tail = pseudonym.rsplit(":", 1)
        six = f"{head}:{tail[:2]}:{tail[2:]}" if len(tail) == 4 else pseudonym
        return match[0][:2] + "-" + six.replace(":", "-")[3:] if "-" in match[0] else six

    def _ipv4(self, match: re.Match[str]) -> str:
        if match[0].startswith(("0.", "127.", "255.")):
            return match[0]  # a mask, or no address of anybody
        number = self.known("ipv4", match[0], "%d")
        return f"198.18.{int(number) // 250}.{int(number) % 250 + 1}"

    def files(self, files: Mapping[str, str | bytes]) -> dict[str, str | bytes]:
        """All files; bytes that are no text (PCI config space) stay as they are."""
        return {
            self.line(path): content if isinstance(content, bytes) else self.text(path, content)
            for path, content in files.items()
        }
