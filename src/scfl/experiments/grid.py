"""A grid of studies: how many leave, how loud codes are, and how many rows they have.

Few seeds and many cells: what is judged is the median of each cell, and a claim holds where it
holds in every cell. Methods without coded data are the same at every noise and code size; each
cell compares with those of its share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from scfl.experiments.claims import Claim, Judgement
from scfl.experiments.levels import Cell, Key
from scfl.experiments.section_five import final_accuracy
from scfl.experiments.sentences import SENTENCES
from scfl.study.records import Run, Study

# Methods of scfl's own, which must be sound whatever happens.
OURS = ("curvature", "resilient", "stand-in", "doubly-robust", "adaptive-scfl")
# What "no worse" and "no lower" leave room for, in accuracy.
ROOM = 0.002
_ROUNDING = 1e-9


@dataclass(frozen=True)
class CellResult:
    """What a cell came to: medians of final accuracies, and what resilient has to do with them.

    ``kept`` is by how much resilient ends above the best it had been before clients left: the
    median over seeds; None where nobody leaves.
    """

    cell: Cell
    accuracies: Mapping[str, float]
    diverged: Mapping[str, int]
    ours: Mapping[str, str]
    label: str
    rival: str
    kept: float | None

    @property
    def lead(self) -> float:
        """How far resilient ends above the best other method."""
        return self.accuracies[self.label] - self.accuracies[self.rival]


def collect_cells(studies: Mapping[Key, Study]) -> tuple[CellResult, ...]:
    """Sum up every cell that has a resilient."""
    return tuple(
        _sum_up(key, study, studies[Cell(key.share)])
        for key, study in studies.items()
        if isinstance(key, Cell) and "resilient" in study.methods.values()
    )


def judge_grid(cells: Iterable[CellResult]) -> tuple[Judgement, ...]:
    """The claims on grids, each with the cells in which it does not hold."""
    results = list(cells)
    unsound = {
        result.cell: ", ".join(label for label in result.ours if result.diverged[label])
        for result in results
        if any(result.diverged[label] for label in result.ours)
    }
    worse = {
        result.cell: f"{result.rival} by {-result.lead:.4f}"
        for result in results
        if result.lead < -ROOM - _ROUNDING
    }
    leaving = [result for result in results if result.kept is not None]
    lower = {
        result.cell: f"by {-result.kept:.4f}"
        for result in leaving
        if result.kept is not None and result.kept < -ROOM - _ROUNDING
    }
    return (
        _judge("grid-sound", unsound, len(results)),
        _judge("grid-no-worse", worse, len(results)),
        *([_judge("grid-keeps", lower, len(leaving))] if leaving else []),
    )


def _judge(key: str, failed: Mapping[Cell, str], cells: int) -> Judgement:
    verdict = "reproduced"
    if len(failed) == cells:
        verdict = "not reproduced"
    elif failed:
        places = "; ".join(f"{cell} ({why})" for cell, why in failed.items())
        verdict = f"reproduced except where {places}"
    return Judgement(Claim(key, SENTENCES[key], ()), (), verdict)


def _sum_up(cell: Cell, study: Study, plain: Study) -> CellResult:
    runs = {label: group.of(label) for group in (study, plain) for label in group.labels}
    methods = {**study.methods, **plain.methods}
    accuracies = {label: _median(map(final_accuracy, group)) for label, group in runs.items()}
    label = next(label for label, method in methods.items() if method == "resilient")
    others = {other: value for other, value in accuracies.items() if other != label}
    kept = None
    if cell.share > 0:
        leaves_s = float(study.manifest.config["availability"]["at-s"])
        kept = _median(final_accuracy(run) - _best_before(run, leaves_s) for run in runs[label])
    return CellResult(
        cell=cell,
        accuracies=accuracies,
        diverged={label: sum(run.diverged for run in group) for label, group in runs.items()},
        ours={label: method for label, method in methods.items() if method in OURS},
        label=label,
        rival=max(others, key=lambda other: others[other]),
        kept=kept,
    )


def _best_before(run: Run, seconds: float) -> float:
    return float(run.trace.accuracy[run.trace.training_time_s <= seconds].max())


def _median(values: Iterable[float]) -> float:
    return float(np.median(list(values)))
