"""A study's table in the terminal: the median over seeds, and below it the spread."""

from __future__ import annotations

from collections.abc import Callable

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from scfl.study.conclusion import conclude
from scfl.study.records import Study
from scfl.study.summary import Clock, LabelSummary, Spread, Summary, summarise
from scfl.study.wording import (
    NOTHING,
    count_words,
    format_loss,
    format_ratio,
    format_score,
    format_seconds,
)

_SECONDS = {"virtual": "virtual", "wall": "of the wall clock"}


def print_summary(study: Study, console: Console) -> None:
    """Print a line per method and what they amount to."""
    summary = summarise(study)
    console.print(_tabulate(summary))
    for label in summary.labels:
        if label.diverged:
            console.print(
                f"{label.label}: {label.diverged} of {label.runs} runs diverged.",
                markup=False,
                highlight=False,
            )
    for sentence in conclude(summary):
        console.print(sentence, markup=False, highlight=False)
    for name in study.labels:
        for sentence in study.of(name)[0].statements:
            console.print(f"{name}: {sentence}", markup=False, highlight=False)


def _tabulate(summary: Summary) -> Table:
    score = "accuracy" if summary.target is None else summary.target.metric
    goal = "target" if summary.target is None else summary.target.wording
    compared = summary.reference is not None and len(summary.labels) > 1
    table = Table(
        box=box.SIMPLE_HEAD,
        caption=escape(
            f"Over {count_words(summary.seeds, 'seed')}: {summary.band_name}. Seconds are "
            f"{_SECONDS[summary.clock]}. Setup: encoding and upload of the coded data; "
            "ratios with and without it."
        ),
        caption_justify="left",
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column("method", no_wrap=True, overflow="fold", min_width=12)
    heads = [f"{goal}\nwith setup", f"{goal}\nsetup left out", f"final\n{score}"]
    if compared:
        heads.insert(2, f"sooner than\n{summary.reference}")
    for head in heads:
        table.add_column(escape(head), justify="right", no_wrap=True)
    for label in summary.labels:
        cells = [
            _time(label, "counted"),
            _time(label, "apart"),
            _spread(label.score(score), format_score if score == "accuracy" else format_loss),
        ]
        if compared:
            cells.insert(2, _speed_up(label, summary.reference))
        table.add_row(escape(label.label), *map(escape, cells))
    return table


def _time(label: LabelSummary, clock: Clock) -> str:
    if label.reach is None:
        return NOTHING
    reach = label.reach[clock]
    text = _spread(reach.spread, format_seconds).replace("not reached", "never")
    return text if reach.reached == label.runs else f"{text}\n{reach.reached} of {label.runs} seeds"


def _speed_up(label: LabelSummary, reference: str | None) -> str:
    if label.label == reference:
        return "reference"
    both = [label.speed_up.get(clock) for clock in ("counted", "apart")]
    return " / ".join(format_ratio(ratio.spread.median if ratio else None) for ratio in both)


def _spread(spread: Spread | None, form: Callable[[float | None], str]) -> str:
    if spread is None:
        return NOTHING
    middle, low, high = (form(value) for value in (spread.median, spread.low, spread.high))
    return middle if low == high else f"{middle}\n[{low.removesuffix(' s')}, {high}]"
