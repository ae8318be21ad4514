"""The commands on methods: which there are, and where they come from."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from scfl.cli.console import OUT, AsJson, print_json
from scfl.methods.citation import cite_method, cite_shortly, summarise_method
from scfl.methods.registry import find_method, known_methods
from scfl.report.outlook import print_methods

app = typer.Typer()


@app.command()
def methods(as_json: AsJson = False) -> None:
    """List the methods that a configuration can name, each with its source."""
    rows = [
        {"name": name, "summary": summarise_method(kind), "citation": cite_shortly(kind)}
        for name, kind in known_methods().items()
    ]
    if as_json:
        print_json(rows)
    else:
        print_methods(rows, OUT)


@app.command()
def cite(method: Annotated[str, typer.Argument(help="A name that `scfl methods` lists.")]) -> None:
    """Print the BibTeX entry of a method's source."""
    sys.stdout.write(cite_method(find_method(method)) + "\n")
