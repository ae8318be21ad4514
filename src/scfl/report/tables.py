"""The report's tables as rows of ready words: what a template shows and nothing that it decides."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from scfl.study.participation import Participation
from scfl.study.records import ABSENT, ARRIVED, LATE, ClientRecord
from scfl.study.summary import Clock, LabelSummary, Spread, Summary
from scfl.study.wording import (
    NOTHING,
    format_bytes,
    format_loss,
    format_number,
    format_range,
    format_ratio,
    format_score,
    format_seconds,
    format_share,
    format_weight,
)

# Above this many clients the table shows only the ends: who was heard least and most.
MOST_CLIENTS = 50
_ENDS = 10


@dataclass(frozen=True)
class Cell:
    """A value, and under it in small print its band or a remark."""

    main: str
    note: str = ""
    best: bool = False


@dataclass(frozen=True)
class Head:
    """A column's head, and the one above it that it may share with its neighbours."""

    words: str
    group: str = ""


@dataclass(frozen=True)
class Table:
    """Heads and rows; each row's first entry is its own head and a key for its swatch."""

    heads: tuple[Head, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    remark: str = ""

    @property
    def groups(self) -> list[tuple[str, int]]:
        """The upper heads with the number of columns that each spans; empty without any."""
        if not any(head.group for head in self.heads):
            return []
        runs = groupby(head.group for head in self.heads)
        return [(group, len(list(members))) for group, members in runs]


def summary_table(summary: Summary) -> Table:
    """Per label: time to the target on both clocks, final score, cost."""
    time = f"Time to {summary.target.wording}" if summary.target else "Time to the target"
    clocks: tuple[tuple[Clock, str], ...] = (
        (("counted", "Setup counted"), ("apart", "Setup left out"))
        if summary.has_setup
        else (("apart", ""),)
    )
    heads = [Head(words, group) for _, group in clocks for words in (time, "Speed-up")]
    scored = summary.metric == "accuracy"
    heads.append(Head("Final accuracy" if scored else "Final loss"))
    heads += [Head("Rounds"), Head("Bytes up"), Head("Bytes down")]
    # A column of nothing but "none" would cost width and say what the page says below.
    some_diverged = any(label.diverged for label in summary.labels)
    heads += [Head("Diverged")] if some_diverged else []
    best = {clock: _best(summary, clock) for clock, _ in clocks}
    rows = []
    for label in summary.labels:
        cells = []
        for clock, _ in clocks:
            cells += [
                _time_cell(label, clock, label.label in best[clock]),
                _speed_cell(label, clock, summary.reference),
            ]
        cells += [
            _spread_cell(label.accuracy, format_score)
            if scored
            else _spread_cell(label.loss, format_loss),
            _spread_cell(label.rounds, format_number),
            _sent_cell(label),
            _spread_cell(label.bytes_down, format_bytes),
        ]
        if some_diverged:
            cells.append(Cell(f"{label.diverged} of {label.runs}" if label.diverged else "none"))
        rows.append((label.label, tuple(cells)))
    return Table(tuple(heads), tuple(rows))


def score_table(summary: Summary) -> Table:
    """The learned model beside its two candidates, and the loss."""
    scored = summary.metric == "accuracy"
    heads = ["Final loss", "Learned model is the"]
    heads += ["Accuracy of the average", "Accuracy of the last"] if scored else []
    rows = []
    for label in summary.labels:
        words = "average of the iterates" if label.learned == "average" else "last iterate"
        cells = [_spread_cell(label.loss, format_loss), Cell(words)]
        if scored:
            cells.append(_spread_cell(label.accuracy_average, format_score))
            cells.append(_spread_cell(label.accuracy_last, format_score))
        rows.append((label.label, tuple(cells)))
    return Table(tuple(map(Head, heads)), tuple(rows))


def client_table(
    part: Participation, order: Sequence[int], clients: Sequence[ClientRecord]
) -> Table:
    """Per client, in the pictures' order; of many clients only those heard least and most."""
    heads = ["Rows", "Load", "Asked", "Arrived", "Late", "Absent", "Mean delay"]
    heads += ["Weight given", "Weight lost", "Bytes up", "Bytes down"]
    shown, remark = list(order), ""
    if len(shown) > MOST_CLIENTS:
        share = np.where(part.asked > 0, part.share_arrived, math.inf)
        ranked = sorted(shown, key=lambda client: share[client])
        asked = [client for client in ranked if part.asked[client]]
        ends = list(dict.fromkeys([*asked[:_ENDS], *asked[-_ENDS:]]))
        shown = ends or shown[: 2 * _ENDS]
        remark = (
            f"The {_ENDS} clients heard least and the {_ENDS} heard most, of {len(clients):,}."
            if ends
            else f"The first {len(shown)} of {len(clients):,} clients."
        )
    rows = []
    for client in shown:
        record, asked_rounds = clients[client], int(part.asked[client])
        counts = part.status_rounds[client]
        share_arrived = format_share(counts[ARRIVED] / asked_rounds) if asked_rounds else ""
        delay = float(part.mean_delay_s[client])
        rows.append(
            (
                record.name,
                (
                    Cell(f"{record.rows:,}"),
                    Cell(f"{record.load:,}"),
                    Cell(f"{asked_rounds:,}"),
                    Cell(f"{counts[ARRIVED]:,}", share_arrived),
                    Cell(f"{counts[LATE]:,}"),
                    Cell(f"{counts[ABSENT]:,}"),
                    Cell(format_seconds(delay)),
                    Cell(format_weight(float(part.weight[client]))),
                    Cell(format_weight(float(part.weight_lost[client]))),
                    Cell(format_bytes(float(part.bytes_up[client]))),
                    Cell(format_bytes(float(part.bytes_down[client]))),
                ),
            )
        )
    return Table(tuple(map(Head, heads)), tuple(rows), remark)


def _best(summary: Summary, clock: Clock) -> set[str]:
    """The labels whose time reads as the shortest; nobody where there is nothing to beat."""
    times = {
        label.label: label.reach[clock].spread.median
        for label in summary.labels
        if label.reach is not None and math.isfinite(label.reach[clock].spread.median)
    }
    if len(summary.labels) < 2 or not times:
        return set()
    shortest = format_seconds(min(times.values()))
    return {label for label, time in times.items() if format_seconds(time) == shortest}


def _time_cell(label: LabelSummary, clock: Clock, best: bool) -> Cell:
    if label.reach is None:
        return Cell(NOTHING)
    reach = label.reach[clock]
    count = len(reach.times_s)
    if not math.isfinite(reach.spread.median):
        note = f"but by {reach.reached} of {count} seeds" if reach.reached else ""
        return Cell("not reached", note)
    cell = _spread_cell(reach.spread, format_seconds)
    if reach.reached < count:
        return Cell(cell.main, f"{reach.reached} of {count} seeds", best)
    return Cell(cell.main, cell.note, best)


def _speed_cell(label: LabelSummary, clock: Clock, reference: str | None) -> Cell:
    if label.label == reference and label.reach is not None:
        return Cell("1", "reference")
    speed = label.speed_up[clock]
    if speed is None:
        return Cell(NOTHING)
    if speed.spread.median == 0:
        return Cell(NOTHING)
    if math.isinf(speed.spread.median):
        return Cell(NOTHING, f"{reference} not there")
    cell = _spread_cell(speed.spread, _times)
    return Cell(cell.main, cell.note)


def _sent_cell(label: LabelSummary) -> Cell:
    cell = _spread_cell(label.bytes_up, format_bytes)
    setup = label.setup_bytes_up.median
    return Cell(cell.main, f"{format_bytes(setup)} in setup") if setup > 0 else Cell(cell.main)


def _times(ratio: float) -> str:
    return format_ratio(ratio).replace("x", "×")  # noqa: RUF001 (the sign for times)


def _spread_cell(spread: Spread | None, form: Callable[[float], str]) -> Cell:
    if spread is None:
        return Cell(NOTHING)
    main, band = form(spread.median), format_range(spread.low, spread.high, form)
    return Cell(main, "" if band == main else band)
