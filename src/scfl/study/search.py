"""Choosing learning rates: the same grid and budget for every method, by training loss alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scfl.errors import RunError
from scfl.study.config import StudyConfig
from scfl.study.jobs import Job, rate_of, with_rate


@dataclass(frozen=True)
class Choice:
    """What the search found for one label. A rate with which a run diverged has no loss."""

    chosen: float
    learning_rates: tuple[float, ...]
    losses: tuple[float | None, ...]
    seeds: tuple[int, ...]

    @property
    def at_edge(self) -> bool:
        """Whether the best rate is the largest that was tried, so that a larger may be better."""
        return len(self.learning_rates) > 1 and self.chosen == max(self.learning_rates)


def choose_rates(jobs: Sequence[Job], summaries: Sequence[Mapping[str, Any]]) -> dict[str, Choice]:
    """The rate with the lowest mean training loss of each label; none with which a run diverged."""
    losses: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    seeds: dict[str, list[int]] = defaultdict(list)
    for job, summary in zip(jobs, summaries, strict=True):
        loss = np.inf if summary["diverged"] or summary["loss"] is None else summary["loss"]
        losses[job.label][rate_of(job.method)].append(loss)
        seeds[job.label].append(job.seed)
    return {label: _choose(label, table, seeds[label]) for label, table in losses.items()}


def settle_rates(study: StudyConfig, choices: Mapping[str, Choice]) -> StudyConfig:
    """The study with the chosen rates in place."""
    settled = {
        label: with_rate(method, choices[label].chosen) if label in choices else method
        for label, method in study.methods.items()
    }
    return replace(study, methods=settled)


def _choose(label: str, table: Mapping[float, Sequence[float]], seeds: Sequence[int]) -> Choice:
    means = {rate: float(np.mean(losses)) for rate, losses in table.items()}
    best = min(means, key=lambda rate: (means[rate], rate))
    if not np.isfinite(means[best]):
        raise RunError(
            f"{label} diverged with every learning rate of the search ({sorted(means)}); "
            "add smaller ones to search.learning-rates"
        )
    return Choice(
        chosen=best,
        learning_rates=tuple(means),
        losses=tuple(loss if np.isfinite(loss) else None for loss in means.values()),
        seeds=tuple(dict.fromkeys(seeds)),
    )
