"""Write docs/variables.md from the roles' argument specs; with --check, fail where it is out of date."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import yaml

TOP = Path(__file__).resolve().parent.parent
PAGE = TOP / "docs" / "variables.md"
HEAD = """\
# Variables

Made from `roles/*/meta/argument_specs.yml` by `scripts/variables.py`; edit those. The same on a terminal:
`ansible-doc -t role nearmetal.rack.ROLE`. A role touches a host only where one of its variables is set.
"""
MARKUP = (  # ansible's semantic markup, as Markdown
    (re.compile(r"\b[CVOEP]\(([^)]*)\)"), r"`\1`"),
    (re.compile(r"\bM\(([^)]*)\)"), r"`\1`"),
    (re.compile(r"\bRV\(([^)]*)\)"), r"`\1`"),
    (re.compile(r"\bI\(([^)]*)\)"), r"*\1*"),
    (re.compile(r"\bB\(([^)]*)\)"), r"**\1**"),
)


def prose(text: str | list[str]) -> str:
    """Turn a description into one line of Markdown."""
    joined = " ".join([text] if isinstance(text, str) else text)
    for pattern, replacement in MARKUP:
        joined = pattern.sub(replacement, joined)
    return " ".join(joined.split()).replace("|", "\\|")


def form(option: dict[str, Any]) -> str:
    """Say the type, with the type of a list's elements, and the choices."""
    kind = str(option.get("type", "str"))
    if "elements" in option:
        kind += f" of {option['elements']}"
    if "choices" in option:
        kind += ": " + ", ".join(f"`{choice}`" for choice in option["choices"])
    return kind


def default(option: dict[str, Any]) -> str:
    """Say the default as YAML."""
    if option.get("required"):
        return "required"
    if "default" not in option:
        return ""
    text = yaml.safe_dump(option["default"], default_flow_style=True, width=1000).removesuffix("\n...\n").strip()
    return f"`{text}`"


def rows(options: dict[str, dict[str, Any]], prefix: str = "") -> list[str]:
    """Write a table row for each option, its sub-options below it."""
    lines = []
    for name, option in options.items():
        lines.append(f"| {prefix}`{name}` | {form(option)} | {default(option)} | {prose(option['description'])} |")
        lines += rows(option.get("options", {}), f"{prefix}↳ ")
    return lines


def page() -> str:
    """Write the whole page."""
    parts = [HEAD]
    for path in sorted((TOP / "roles").glob("*/meta/argument_specs.yml")):
        spec = yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]["main"]
        parts.append(f"## {path.parent.parent.name}\n\n{prose(spec['description'])}\n")
        table = ["| variable | type | default | meaning |", "|---|---|---|---|", *rows(spec["options"])]
        parts.append("\n".join(table) + "\n")
    return "\n".join(parts)


def main(arguments: list[str]) -> int:
    """Write or check; 1 where the check found a difference."""
    text = page()
    if arguments == ["--check"]:
        if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text:
            return 0
        print("docs/variables.md is out of date: run scripts/variables.py", file=sys.stderr)
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
