"""The command line. Every command lives in nearmetal/commands/ or in its part's cli.py."""

from __future__ import annotations

import sys
from typing import Annotated

import click
import typer

from nearmetal import __version__
from nearmetal.bench import cli as bench
from nearmetal.commands import apply, audit, capture, inspect, partition, plan, runs
from nearmetal.errors import FAILED, USAGE, NearmetalError
from nearmetal.lab import cli as lab

app = typer.Typer(
    name="nearmetal", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    help="From factory settings to virtual machines as fast as bare metal.",
)  # fmt: skip
for part in (inspect, partition, capture, audit, plan, apply, runs):
    part.register(app)
app.add_typer(bench.app, name="bench", help="Benchmarks: bare metal against virtual machines.")
app.add_typer(lab.app, name="lab", help="The virtual rack.")


def _version(asked: bool) -> None:
    if asked:
        print(f"nearmetal {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None: ...


def main(args: list[str] | None = None) -> None:
    """Run a command. Bad usage is 64, not click's 2: 2 means that changes are pending."""
    command = typer.main.get_command(app)
    try:
        code = command.main(args=args, prog_name="nearmetal", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as err:
        print(err.format_message())
        code = USAGE
    except click.ClickException as err:
        err.show(sys.stderr)
        code = USAGE
    except click.exceptions.Abort:
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
