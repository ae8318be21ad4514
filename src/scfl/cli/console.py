"""Where commands print, and the options that several of them share."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from scfl.study.folder import to_json
from scfl.study.jobs import Job

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


class RunBar:
    """A bar for runs, whose number may grow while they are done."""

    def __init__(self, progress: Progress, total: int | None = None) -> None:
        self._progress, self._total = progress, total
        self._task = progress.add_task("checking" if total is None else "runs", total=total)

    def more(self, runs: int) -> None:
        """Announce so many runs, beside those announced before."""
        self._total = (self._total or 0) + runs
        self._progress.update(self._task, total=self._total)

    def advance(self, job: Job, summary: Mapping[str, Any]) -> None:
        """Note that a run is done."""
        said = f"{job.label}, seed {job.seed}"
        self._progress.update(self._task, advance=1, description=said)


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
