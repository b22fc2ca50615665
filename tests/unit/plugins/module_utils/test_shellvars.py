"""The evaluator that runs nothing, against a shell that does."""

from __future__ import annotations

import subprocess

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils import shellvars
from hypothesis import given, settings
from hypothesis import strategies as st


def shell(script: str, *names: str) -> list[str]:
    """What a real shell makes of it."""
    code = script + "\nprintf '%s\\0' " + " ".join(f'"${{{n}}}"' for n in names)
    done = subprocess.run(["sh", "-c", code], capture_output=True, text=True, check=True, env={})
    return done.stdout.split("\0")[:-1]


@pytest.mark.parametrize(
    "script",
    [
        'X="quiet splash"',
        "X='quiet $HOME'",
        "X=quiet\\ splash",
        'X="a"\'b\'c\\"d',
        'A="x y"\nX="$A z"\nX="${X:+$X }more"',
        'X="${X:+$X }more"',
        'X="${Y:-de fault}" # comment\n',
        'X="${Y-d}"\nX="$X;1" # c',
        "X=${Y:=set}\nX=$X$Y",
        'X=""\nX="${X+there}"\nX="${Z+not}$X"',
        'X="one \\\n two"\n',
        'X="pci=config_acs=\\"a;b\\" \\$tuned_params \\x"',
        'export X="1" Y=2; X="$X $Y"',
        "X=1; unset X",
        "X=a#b\n# X=c\n",
        "X=a; export X",
        'X="${A:-"q r"}"',
    ],
)
def test_as_the_shell(script: str) -> None:
    values = shellvars.evaluate([script])
    assert values.get("X") == shell(script, "X")[0]
    assert not values.beyond
    assert values.doubt("X") is None


PIECES = st.lists(
    st.sampled_from(
        ["a", "b=1", "'q r'", "''", '"d e"', '"$A"', "$B", "${A:+x}", '"${B:+$B }"']
        + ["\\ ", '\\"', '"\\""', '"\\$"', "${C:-z}"]
    ),
    max_size=5,
).map("".join)
SCRIPTS = st.lists(st.builds("{}={}".format, st.sampled_from("ABX"), PIECES), min_size=1, max_size=5)


@settings(max_examples=60, deadline=None)
@given(SCRIPTS)
def test_any_assignments_as_the_shell(lines: list[str]) -> None:
    script = "\n".join(lines)
    values = shellvars.evaluate([script])
    assert [values.get(n) for n in "ABX"] == shell(script, *"ABX")


def test_plus_assignment() -> None:
    assert shellvars.evaluate(['X="a"\nX+=" b"']).get("X") == "a b"


@pytest.mark.parametrize(
    ("script", "line", "unsure", "sure"),
    [
        ('X=1\nif [ -f /x ]; then\n  X=2\nfi\nY="$X"\nZ=3', 2, ["X", "Y"], ["Z"]),
        ("for i in a b; do X=$i; done\nZ=3", 1, ["X"], ["Z"]),
        ("for i in a b\ndo\n X=$i\ndone\nZ=3", 1, ["X"], ["Z"]),
        ("f() {\n X=1\n}\nf\nZ=3", 1, ["X"], ["Z"]),
        ("f()\n{\n X=1\n}\nZ=3", 1, ["X"], ["Z"]),
        ("[ -x /x ] && X=2\nZ=3", 1, ["X"], ["Z"]),
        ("Z=3 && X=2", 1, ["X"], ["Z"]),
        ("Q=1\n. /etc/other\nZ=3", 2, ["X", "Q"], ["Z"]),
        ("case $Y in a) X=1;; *) X=2;; esac\nZ=3", 1, ["X"], ["Z"]),
        ("if [ a ]; then\n X=1\nfi\nX=2\nZ=3", 1, [], ["X", "Z"]),
        ("cat <<E\nX=1\nE\n", 1, ["X"], []),
        ("echo hello\nX=1\nZ=3", 1, [], ["X", "Z"]),
    ],
)
def test_more_than_assignments_is_said_not_run(script: str, line: int, unsure: list[str], sure: list[str]) -> None:
    values = shellvars.evaluate([script])
    assert values.beyond[0].line == line
    assert [n for n in unsure if values.doubt(n) is None] == []
    assert [n for n in sure if values.doubt(n) is not None] == []
    if "Z" in sure:
        assert values.get("Z") == "3"


def test_substitution_only_casts_doubt_on_its_variable() -> None:
    values = shellvars.evaluate(["D=`lsb_release -i; echo x`\nE=$( . /etc/os-release; echo ${NAME:-Debian} )\nX=1\n"])
    assert not values.beyond
    assert values.get("X") == "1"
    assert values.doubt("D")
    assert values.doubt("E")
    assert values.doubt("X") is None


def test_characters_know_their_place() -> None:
    first, second = 'A="x y"\n', 'B="1 $A"\n'
    values = shellvars.evaluate([first, second])
    chars = values.chars["B"]
    assert shellvars.span(chars[2:5]) == (0, first.index("x"), first.index("y") + 1)
    assert shellvars.span(chars[0:3]) is None
