"""The command line: a thin shell that parses words, shows progress, and turns errors into exits.

Exit codes: 0 when everything asked for was done, 1 when a run failed or diverged, 2 for a mistake
in what was asked, 130 when interrupted. Each file holds the commands on one subject.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from scfl import __version__
from scfl.cli import data, errata, figure, methods, network, privacy, study
from scfl.cli.console import ERR, OUT
from scfl.errors import RunError, ScflError

app = typer.Typer(
    name="scfl",
    help="Federated linear models on machines that are slow, flaky or gone.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for commands in (study.app, figure.app, methods.app, errata.app):
    app.add_typer(commands)
app.add_typer(data.app, name="data")
app.add_typer(privacy.app, name="privacy")
app.add_typer(network.app, name="network")


def main() -> None:
    """Run the command line; a user's mistake ends in one sentence, never in a traceback."""
    try:
        app()
    except ScflError as error:
        for line in str(error).splitlines():
            ERR.print(f"error: {line}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(1 if isinstance(error, RunError) else 2)


def _print_version(wanted: bool) -> None:
    if wanted:
        OUT.print(f"scfl {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    """Federated linear models on machines that are slow, flaky or gone."""
