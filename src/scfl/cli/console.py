"""Where commands print, and the options that several of them share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from scfl.study.folder import to_json

OUT = Console()
ERR = Console(stderr=True)

Jobs = Annotated[
    int, typer.Option("--jobs", min=1, help="Runs at the same time, each in a process of its own.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key, such as clock.rounds=50."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
ConfigPath = Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="The study to run.")]


def print_json(content: object) -> None:
    """Print an object for another program to read."""
    sys.stdout.write(to_json(content).decode())


def show_progress() -> Progress:
    """Progress of many runs, on a terminal only."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=ERR,
        disable=not ERR.is_terminal,
        transient=True,
    )
