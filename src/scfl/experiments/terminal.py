"""Experiments in the terminal: which there are, and the verdict on every claim."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from scfl.experiments.catalogue import Experiment
from scfl.experiments.outcome import Outcome
from scfl.study.wording import count_words

_HEADS = {"apart": "setup left out", "counted": "setup counted"}


def print_experiments(experiments: Sequence[Experiment], console: Console) -> None:
    """Print name, subject and time of each experiment."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("what it shows")
    table.add_column("CPU-minutes", justify="right")
    for experiment in experiments:
        took = "-"
        if experiment.expected is not None:
            took = f"{experiment.expected['took']['cpu_s'] / 60:.1f}"
        table.add_row(escape(experiment.name), escape(experiment.figure.title), took)
    console.print(table)


def print_claims(outcome: Outcome, console: Console) -> None:
    """Print a line per claim, with its verdict on each clock."""
    seeds = len(outcome.first.manifest.seeds)
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_lines=True,
        caption=f"Over {count_words(seeds, 'seed')}; the page has every "
        f"{'cell' if outcome.cells else 'comparison, in pairs'}.",
        caption_justify="left",
    )
    table.add_column("claim", ratio=2)
    clocks = list(outcome.judgements)
    for clock in clocks:
        table.add_column(_HEADS[clock] if len(clocks) > 1 else "verdict", ratio=1)
    for group in zip(*outcome.judgements.values(), strict=True):
        table.add_row(escape(group[0].claim.sentence), *(escape(one.verdict) for one in group))
    console.print(table)
