"""The command that shows where the paper says more than holds."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from scfl.cli.console import OUT, AsJson, print_json
from scfl.errata.catalogue import ERRATA, find_erratum, write_page

app = typer.Typer()


@app.command()
def errata(
    name: Annotated[str | None, typer.Argument(help="One of them; all by default.")] = None,
    as_json: AsJson = False,
    page: Annotated[
        bool, typer.Option("--page", help="Print them all as a page of Markdown.")
    ] = False,
) -> None:
    """Compute, in seconds, each point on which the paper says more than holds."""
    if page:
        sys.stdout.write(write_page())
        return
    chosen = ERRATA.values() if name is None else [find_erratum(name)]
    found = [(erratum, erratum.demonstrate()) for erratum in chosen]
    if as_json:
        print_json(
            [
                {
                    "name": erratum.name,
                    "place": erratum.place,
                    "title": erratum.title,
                    "printed": erratum.printed,
                    "true": erratum.true,
                    "consequence": erratum.consequence,
                    "figures": [asdict(figure) for figure in figures],
                }
                for erratum, figures in found
            ]
        )
        return
    for erratum, figures in found:
        OUT.print(f"{erratum.name}: {erratum.title}", style="bold", markup=False, highlight=False)
        OUT.print(f"  {erratum.place}, printed: {erratum.printed}", markup=False, highlight=False)
        OUT.print(f"  True: {erratum.true}", markup=False, highlight=False)
        for figure in figures:
            OUT.print(f"    {figure.text:>10}  {figure.label}", markup=False, highlight=False)
