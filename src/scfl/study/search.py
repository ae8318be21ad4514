"""Choosing learning rates: by the same rule for every method, by training loss alone."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from scfl.errors import RunError
from scfl.study.config import StudyConfig
from scfl.study.jobs import Job, rate_of, with_rate
from scfl.study.sections import SearchSection

# The factor from one rate to the next where a list of one does not say.
_RATIO = 2.0


@dataclass(frozen=True)
class Choice:
    """What the search found for one label. A rate with which a run diverged has no loss."""

    chosen: float
    learning_rates: tuple[float, ...]
    losses: tuple[float | None, ...]
    seeds: tuple[int, ...]

    @property
    def at_edge(self) -> bool:
        """Whether no smaller, or no larger, rate was tried, so that one may be better."""
        ends = (min(self.learning_rates), max(self.learning_rates))
        return len(self.learning_rates) > 1 and self.chosen in ends


@dataclass(frozen=True, eq=False)
class Tried:
    """The runs of a search so far. The loss of a label's rate is infinite if a run diverged."""

    losses: Mapping[str, Mapping[float, float]]
    seeds: Mapping[str, tuple[int, ...]]


def sum_up_tries(jobs: Sequence[Job], summaries: Sequence[Mapping[str, Any]]) -> Tried:
    """The mean training loss of every label's rates, over the search's seeds."""
    losses: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    seeds: dict[str, dict[int, None]] = defaultdict(dict)
    for job, summary in zip(jobs, summaries, strict=True):
        loss = np.inf if summary["diverged"] or summary["loss"] is None else summary["loss"]
        losses[job.label][rate_of(job.method)].append(loss)
        seeds[job.label][job.seed] = None
    return Tried(
        losses={
            label: {rate: float(np.mean(each)) for rate, each in table.items()}
            for label, table in losses.items()
        },
        seeds={label: tuple(each) for label, each in seeds.items()},
    )


def list_next_rates(section: SearchSection, tried: Tried) -> dict[str, tuple[float, ...]]:
    """The rates that each label is to be tried with next; nothing where its search is over."""
    wanted = {label: _next(section, losses) for label, losses in tried.losses.items()}
    return {label: rates for label, rates in wanted.items() if rates}


def choose_rates(tried: Tried) -> dict[str, Choice]:
    """The rate with the lowest mean training loss of each label; none with which a run diverged."""
    return {
        label: _choose(label, losses, tried.seeds[label]) for label, losses in tried.losses.items()
    }


def settle_rates(study: StudyConfig, choices: Mapping[str, Choice]) -> StudyConfig:
    """The study with the chosen rates in place."""
    settled = {
        label: with_rate(method, choices[label].chosen) if label in choices else method
        for label, method in study.methods.items()
    }
    return replace(study, methods=settled)


def _next(section: SearchSection, losses: Mapping[float, float]) -> tuple[float, ...]:
    """Play the search again as far as its losses are known, and say which are missing."""
    ladder = sorted(section.learning_rates)
    for _ in range(section.widen):
        best = _best(ladder, losses)
        if best == ladder[-1] and math.isfinite(losses[best]):
            ladder.append(_readable(best * (best / ladder[-2] if len(ladder) > 1 else _RATIO)))
        elif best == ladder[0]:
            ladder.insert(0, _readable(best / (ladder[1] / best if len(ladder) > 1 else _RATIO)))
        else:
            break
        missing = tuple(rate for rate in ladder if rate not in losses)
        if missing:
            return missing
    for _ in range(section.refine):
        place = ladder.index(_best(ladder, losses))
        near = ladder[max(place - 1, 0) : place + 2]
        between = [_readable(math.sqrt(a * b)) for a, b in pairwise(near)]
        ladder = sorted({*ladder, *between})
        missing = tuple(rate for rate in ladder if rate not in losses)
        if missing:
            return missing
    return ()


def _best(rates: Sequence[float], losses: Mapping[float, float]) -> float:
    """The rate with the lowest loss; of equal ones, and where all diverged, the smallest."""
    return min(rates, key=lambda rate: (losses[rate], rate))


def _readable(rate: float) -> float:
    return float(f"{rate:.3g}")


def _choose(label: str, losses: Mapping[float, float], seeds: tuple[int, ...]) -> Choice:
    best = _best(list(losses), losses)
    if not np.isfinite(losses[best]):
        raise RunError(
            f"{label} diverged with every learning rate of the search ({sorted(losses)}); "
            "add smaller ones to search.learning-rates, or let search.widen go there"
        )
    return Choice(
        chosen=best,
        learning_rates=tuple(sorted(losses)),
        losses=tuple(
            losses[rate] if np.isfinite(losses[rate]) else None for rate in sorted(losses)
        ),
        seeds=seeds,
    )
