"""What the documentation tells people to type exists: commands, options, make targets, playbooks."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from nearmetal.cli import build

app = build()
TOP = Path(__file__).resolve().parents[2]
PAGES = [TOP / "README.md", TOP / "CONTRIBUTING.md", *sorted((TOP / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(?:sh|console|shell|bash)\n(.*?)^```", re.M | re.S)
COLLECTION = re.compile(r"nearmetal\.rack\.([a-z_]+)")


def commands(text: str) -> list[list[str]]:
    """Words of each command in the shell blocks of a page; pipelines are cut into their commands."""
    found = []
    for block in FENCE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            words: list[str] = []
            lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            for word in lexer:
                if word in ("|", "||", "&&", ";"):
                    found.append(words)
                    words = []
                else:
                    words.append(word)
            found.append(words)
    return [[w for w in words if "=" not in w.split("/")[0] or w.startswith("-")] for words in found if words]


def told(program: str) -> list[Any]:
    """All commands of one program, with the page that names them."""
    return [
        pytest.param(words, id=f"{page.name}: {' '.join(words)}")
        for page in PAGES
        for words in commands(page.read_text(encoding="utf-8"))
        if words and Path(words[0]).name == program
    ]


def test_commands_are_found_in_a_page() -> None:
    page = "text\n```sh\n$ A=1 nearmetal plan -i x  # why\nmake a && nearmetal drift -i 'y z' | jq .\n```\n"
    assert commands(page) == [["nearmetal", "plan", "-i", "x"], ["make", "a"], ["nearmetal", "drift", "-i", "y z"],
                              ["jq", "."]]


def resolve(words: list[str]) -> tuple[Any, list[str]]:
    """The command object that the words name, and the words after it."""
    command: Any = typer.main.get_command(app)
    rest = list(words)
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    return command, rest


@pytest.mark.parametrize("words", told("nearmetal"))
def test_nearmetal_command_exists(words: list[str]) -> None:
    command, rest = resolve(words[1:])
    assert not hasattr(command, "commands") or set(rest) <= {"--version", "--help"}, f"no such command: {rest}"
    known = {"--help", *(option for p in command.params for option in (*p.opts, *p.secondary_opts))}
    given = {w.split("=")[0] for w in rest[: rest.index("--") if "--" in rest else None] if w.startswith("-")}
    assert given <= known, f"no such option: {given - known}"


def test_help_of_every_command() -> None:
    def walk(command: Any, path: list[str]) -> list[list[str]]:
        children = getattr(command, "commands", {})
        return [path, *(p for name, child in children.items() for p in walk(child, [*path, name]))]

    for path in walk(typer.main.get_command(app), []):
        answer = CliRunner().invoke(app, [*path, "--help"])
        assert answer.exit_code == 0, path
        assert "Usage" in answer.output, path


@pytest.mark.parametrize("words", told("make"))
def test_make_target_exists(words: list[str]) -> None:
    targets = re.findall(r"^([a-z-]+):", (TOP / "Makefile").read_text(encoding="utf-8"), re.M)
    for target in words[1:]:
        assert target in targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_parts_of_the_collection_exist(page: Path) -> None:
    there = {p.stem for folder in ("playbooks", "plugins/modules", "plugins/action", "plugins/callback",
                                                 "plugins/connection")
             for p in (TOP / folder).glob("*.*")} | {p.name for p in (TOP / "roles").iterdir()}
    named = set(COLLECTION.findall(page.read_text(encoding="utf-8")))
    assert named <= there


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
