"""The commands on data sets: which there are, getting one, and checking what is here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from scfl.cli.console import ERR, OUT, AsJson, print_json
from scfl.data.cache import cache_folder
from scfl.data.install import describe_sets, find_damage, install_set
from scfl.data.packages import Report
from scfl.errors import DataError
from scfl.report.outlook import print_sets

app = typer.Typer(help="Data sets: list them, get one, check what is here.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A name that `scfl data list` shows.")]


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the data sets that a configuration can name, and whether they are on this machine."""
    rows = describe_sets()
    if as_json:
        print_json(rows)
        return
    print_sets(rows, OUT)
    OUT.print(f"cache: {cache_folder()}", highlight=False, soft_wrap=True)


@app.command()
def get(
    name: Name,
    origin: Annotated[
        Path | None,
        typer.Option("--from", metavar="PATH", help="A folder or an archive with the files."),
    ] = None,
) -> None:
    """Have a data set on this machine, verified; the same command finishes an interrupted one."""
    try:
        with _progress() as report:
            folder = install_set(name, report, origin)
    except KeyboardInterrupt:
        ERR.print("interrupted: give the same command again to go on", highlight=False)
        raise typer.Exit(130) from None
    OUT.print(f"{name} is here, verified: {folder}", highlight=False, soft_wrap=True)


@app.command()
def check(
    name: Annotated[
        str | None, typer.Argument(help="One set; all that are here by default.")
    ] = None,
) -> None:
    """Verify the data sets on this machine against their SHA-256, byte by byte."""
    here = [row["name"] for row in describe_sets() if row["here"] == "yes"]
    problems = []
    with _progress() as report:
        for each in here if name is None else [name]:
            found = find_damage(each, report)
            problems += found
            if not found:
                OUT.print(f"{each}: whole", highlight=False)
    if problems:
        raise DataError(problems)
    if not here and name is None:
        OUT.print("no data set is here yet; see: scfl data list", highlight=False)


@contextmanager
def _progress() -> Iterator[Report]:
    """A bar on a terminal; elsewhere a line for every stage."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    stages: list[str] = []
    with Progress(*columns, console=ERR, disable=not ERR.is_terminal, transient=True) as progress:
        task = progress.add_task("", total=None)

        def report(stage: str, done: int, total: int) -> None:
            if stages[-1:] != [stage]:
                stages.append(stage)
                if not ERR.is_terminal:
                    ERR.print(stage, highlight=False, soft_wrap=True)
            progress.update(task, description=stage, completed=done, total=total or None)

        yield report
