"""Words of a command line: what is kept, replaced, compared."""

from __future__ import annotations

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils import cmdline, words
from hypothesis import given
from hypothesis import strategies as st


def after(line: str, args: list[str], absent: list[str] | None = None) -> str:
    return cmdline.join(cmdline.apply(cmdline.parse(line), args, absent or []))


@pytest.mark.parametrize(
    ("line", "args", "absent", "result"),
    [
        ("quiet splash", ["iommu=pt"], [], "quiet splash iommu=pt"),
        ("quiet iommu=nopt splash", ["iommu=pt"], [], "quiet iommu=pt splash"),
        ("console=tty1 console=ttyS0", ["a=1"], [], "console=tty1 console=ttyS0 a=1"),
        ("console=tty1 quiet console=ttyS0", ["console=ttyS1"], [], "console=ttyS1 quiet"),
        ("console=tty1 quiet console=ttyS0", ["console=tty1", "console=ttyS0"], [], "console=tty1 console=ttyS0 quiet"),
        ("quiet console=tty1 console=ttyS0", [], ["console"], "quiet"),
        ("quiet console=tty1 console=ttyS0,115200", [], ["console=ttyS0"], "quiet console=tty1 console=ttyS0,115200"),
        ("quiet console=tty1 console=ttyS0", [], ["console=ttyS0"], "quiet console=tty1"),
        ("quiet foo-bar=1", ["foo_bar=2"], [], "quiet foo_bar=2"),
        ("quiet foo_bar=1 x", [], ["foo-bar"], "quiet x"),
        ("foo", ["foo=1"], [], "foo=1"),
        ("foobar=1", ["foo=1"], [], "foobar=1 foo=1"),
        ("quiet -- single iommu=off", ["iommu=pt"], [], "quiet iommu=pt -- single iommu=off"),
        ("quiet -- quiet", [], ["quiet"], "-- quiet"),
        ("", ["a"], [], "a"),
        ("a b", [], [], "a b"),
        (
            "hugepagesz=1G hugepages=16 hugepagesz=2M hugepages=512 ro", ["hugepagesz=2M", "hugepages=64"], [],
            "hugepagesz=2M hugepages=64 ro",
        ),
        ("hugepages=4 default_hugepagesz=1G ro", [], ["hugepages"], "default_hugepagesz=1G ro"),
        ('a "dyndbg=file x +p" b', ["dyndbg=y"], [], "a dyndbg=y b"),
        ('a "dyndbg=file x +p" b', ['dyndbg="file x +p"'], [], 'a "dyndbg=file x +p" b'),
        ('pci=config_acs="a;b"', ["pci=config_acs=a;b"], [], 'pci=config_acs="a;b"'),
    ],
)  # fmt: skip
def test_apply(line: str, args: list[str], absent: list[str], result: str) -> None:
    assert after(line, args, absent) == result
    assert after(result, args, absent) == result


@pytest.mark.parametrize(
    ("there", "asked"),
    [
        ("intel_iommu=on,sm_on", "intel_iommu=on"),
        ("intel_iommu=on intel_iommu=sm_on", "intel_iommu=on"),
        ("iommu=pt,force", "iommu=force,pt"),
        ("isolcpus=2,3", "isolcpus=2-3"),
        ("isolcpus=domain,managed_irq,2-3", "isolcpus=managed_irq,domain,2,3"),
        ("isolcpus=2-3", "isolcpus=domain,2-3"),
        ("nohz_full=0-15:2/4", "nohz_full=0,1,4,5,8,9,12-13"),
        ("rcu-nocbs=1-3", "rcu_nocbs=1,2,3"),
        ("default_hugepagesz=1G", "default_hugepagesz=1024M"),
        ("hugepagesz=1GB hugepages=4", "hugepagesz=1G hugepages=4"),
        (
            "hugepagesz=1G hugepages=4 hugepagesz=2M hugepages=8",
            "hugepagesz=2048k hugepages=8 hugepagesz=1G hugepages=4",
        ),
        ("hugepages=1:8,0:4", "hugepages=0:4,1:8"),
        ("nohz_full=all", "nohz_full=all"),
    ],
)
def test_same_meaning_changes_nothing(there: str, asked: str) -> None:
    assert cmdline.satisfied(cmdline.parse("ro " + there), asked.split())


@pytest.mark.parametrize(
    ("there", "asked"),
    [
        ("intel_iommu=on,off", "intel_iommu=on"),
        ("intel_iommu=sm_on", "intel_iommu=on"),
        ("iommu=pt,nopt", "iommu=pt"),
        ("pci=config_acs=x", "pci=config_acs=y"),
        ("isolcpus=2-3", "isolcpus=managed_irq,2-3"),
        ("isolcpus=2-4", "isolcpus=2-3"),
        ("isolcpus=2-3 isolcpus=2-3", "isolcpus=2-3"),
        ("mitigations=auto,nosmt", "mitigations=auto"),
        ("hugepages=12", "hugepages=0:8,1:4"),
        ("hugepagesz=2M hugepages=8", "hugepages=8"),
        ("hugepagesz=1G quiet hugepages=8", "hugepagesz=1G hugepages=8"),
        ("console=ttyS0 console=tty0", "console=tty0 console=ttyS0"),
        ("nohz_full=all", "nohz_full=0-3"),
    ],
)
def test_other_meaning_is_replaced(there: str, asked: str) -> None:
    line = cmdline.parse("ro " + there)
    assert not cmdline.satisfied(line, asked.split())
    assert cmdline.join(cmdline.apply(line, asked.split())).replace("quiet", "").split() == ["ro", *asked.split()]


def test_in_force_needs_no_neighbours() -> None:
    line = cmdline.parse("console=tty1 quiet console=ttyS0")
    asked = ["console=tty1", "console=ttyS0"]
    assert not cmdline.satisfied(line, asked)
    assert cmdline.missing(line, asked, ["splash"]) == ([], [])
    assert cmdline.missing(line, ["a=1"], ["quiet"]) == (["a=1"], ["quiet"])


@pytest.mark.parametrize(
    ("args", "absent", "message"),
    [
        (["a b"], [], "more than one word"),
        ([""], [], "is empty"),
        (['a="b'], [], "unpaired"),
        (["a=b\nc"], [], "control character"),
        (["=x"], [], "no valid parameter name"),
        (["--"], [], "no valid parameter name"),
        (["BOOT_IMAGE=/x"], [], "boot loader itself"),
        (["iommu=pt"], ["iommu"], "keep one"),
        (["foo_x=1"], ["foo-x=1"], "keep one"),
    ],
)
def test_bad_request_names_option_and_value(args: list[str], absent: list[str], message: str) -> None:
    found = cmdline.check(args, absent)
    assert len(found) == 1
    assert message in found[0]
    with pytest.raises(ValueError, match=r"args|absent"):
        cmdline.request(args, absent)


def test_absent_word_beside_an_asked_one_of_the_same_name() -> None:
    assert after("console=ttyS1 x", ["console=tty0"], ["console=ttyS1"]) == "x console=tty0"


def test_parts_keep_words_where_they_stand() -> None:
    parts = [cmdline.parse("net.ifnames=0 iommu=nopt"), cmdline.parse("quiet iommu=off")]
    new = cmdline.apply_parts(parts, cmdline.request(["iommu=pt", "b=1"], []), append_to=1)
    assert [cmdline.join(part) for part in new] == ["net.ifnames=0 iommu=pt", "quiet b=1"]
    stop = [cmdline.parse("a -- x"), cmdline.parse("b")]
    assert [cmdline.join(p) for p in cmdline.apply_parts(stop, cmdline.request(["c"], []))] == ["a c -- x", "b"]


def test_real_lines_are_kept_word_for_word(samples: object) -> None:
    from pathlib import Path

    text = (Path(str(samples)) / "boot" / "proc-cmdline.txt").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(lines) >= 3
    for line in lines:
        asked = ["iommu=pt", "nearmetal.test=1"]
        new = cmdline.apply(cmdline.parse(line), asked)
        assert [w.raw for w in new if w.group not in ("iommu", "nearmetal.test")] == [
            w for w in _split(line) if w.split("=")[0] != "iommu"
        ]


def _split(line: str) -> list[str]:
    out, inside = [""], False
    for char in line:
        inside = inside != (char == '"')
        if char == " " and not inside:
            out.append("")
        else:
            out[-1] += char
    return [word for word in out if word]


NAMES = st.sampled_from(["a", "b", "c-d", "c_d", "console", "hugepages", "hugepagesz", "iommu", "isolcpus", "quiet"])
VALUES = st.sampled_from(["1", "2", "0-3", "0,1,2,3", "on", "off", "pt", "1G", "1024M", '"x y"', "managed_irq,1"])
WORDS = st.one_of(NAMES, st.builds("{}={}".format, NAMES, VALUES))
LINES = st.lists(WORDS, max_size=12)
ASKED = st.lists(st.builds("{}={}".format, NAMES, VALUES), max_size=5)


@given(LINES, ASKED, st.lists(WORDS, max_size=3))
def test_apply_holds_what_it_promises(line: list[str], args: list[str], absent: list[str]) -> None:
    absent = [text for text in absent if not cmdline.check(args, [text])]
    before = cmdline.parse(" ".join(line))
    new = cmdline.apply(before, args, absent)
    wanted = cmdline.request(args, absent)
    assert cmdline.satisfied(new, args, absent)
    assert cmdline.missing(new, args, absent) == ([], [])
    assert cmdline.apply(new, args, absent) == new
    assert cmdline.unmanaged(new, wanted) == cmdline.unmanaged(before, wanted)
    if cmdline.satisfied(before, args, absent):
        assert new == before
    for name, asked in wanted.groups.items():
        assert words.same([w for w in new if w.group == name], asked)
    assert not [w for w in new if w.group in wanted.names]


@given(st.frozensets(st.integers(0, 40), min_size=1))
def test_cpulists_are_equal_by_their_cpus(cpus: frozenset[int]) -> None:
    long = ",".join(str(cpu) for cpu in sorted(cpus))
    assert words.cpus(long) == cpus
    assert words.meaning(cmdline.parse("nohz_full=" + long)[0]) == ("nohz_full", cpus)


@pytest.mark.parametrize(
    ("text", "size"), [("2M", 2 << 20), ("0x10", 16), ("1gb", 1 << 30), ("x", None), ("1G-:2", None)]
)
def test_size(text: str, size: int | None) -> None:
    assert words.size(text) == size
