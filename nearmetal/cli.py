"""The command line. Every command lives in nearmetal/commands/ or in its part's cli.py."""

from __future__ import annotations

import importlib
import sys
from typing import Annotated, Any

import typer

from nearmetal import __version__
from nearmetal.errors import FAILED, USAGE, NearmetalError

COMMANDS = {
    "inspect": "commands.inspect",
    "partition": "commands.partition",
    "capture": "commands.capture",
    "audit": "commands.audit",
    "validate": "commands.plan",
    "plan": "commands.plan",
    "drift": "commands.plan",
    "apply": "commands.apply",
    "runs": "commands.runs",
}
"""Command -> module with `register(app)`. Only what is called is loaded: starting must not cost more than a probe."""

GROUPS = {
    "bench": ("bench.cli", "Benchmarks: bare metal against virtual machines."),
    "lab": ("lab.cli", "The virtual rack."),
    "sim": ("sim.cli", "The simulated rack."),
}
"""Group of commands -> (module with a Typer `app`, help)."""


# Typer may bring a click of its own, so click.UsageError is not necessarily the one that is raised.
BAD_USAGE: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def build(word: str = "") -> typer.Typer:
    """The application; only with the part that holds the command `word`, where there is such a one."""
    app = typer.Typer(
        name="nearmetal", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
        help="From factory settings to virtual machines as fast as bare metal.",
    )  # fmt: skip
    app.callback()(_top)
    known = word in COMMANDS or word in GROUPS
    for path in dict.fromkeys(p for name, p in COMMANDS.items() if name == word or not known):
        importlib.import_module(f"nearmetal.{path}").register(app)
    for name, (path, about) in GROUPS.items():
        if name == word or not known:
            app.add_typer(importlib.import_module(f"nearmetal.{path}").app, name=name, help=about)
    return app


def _version(asked: bool) -> None:
    if asked:
        print(f"nearmetal {__version__}")
        sys.exit(0)


def _top(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None: ...


def main(args: list[str] | None = None) -> None:
    """Run a command. Bad usage is 64, not click's 2: 2 means that changes are pending."""
    words = sys.argv[1:] if args is None else args
    if words[:1] == ["--version"]:
        _version(True)
    command = typer.main.get_command(build(words[0] if words else ""))
    try:
        code = command.main(args=args, prog_name="nearmetal", standalone_mode=False)
    except BAD_USAGE as err:
        err.show(file=sys.stderr)
        code = USAGE
    except typer.Abort:
        print("stopped", file=sys.stderr)
        code = FAILED
    except NearmetalError as err:
        print(f"nearmetal: {err.message}", file=sys.stderr)
        code = err.code
    except KeyboardInterrupt:
        print("nearmetal: stopped", file=sys.stderr)
        code = 130
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
