"""Studies in memory, for tests that need to choose every number themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scfl.study.records import Manifest, ProblemFacts, Run, Study, Trace


@dataclass(frozen=True)
class Past:
    """One run's evaluations; scores are accuracies, or losses in a regression."""

    times_s: Sequence[float]
    scores: Sequence[float]
    setup_s: float = 0.0
    diverged: bool = False
    rounds: Sequence[int] | None = None


def climbs(*times_s: float, setup_s: float = 0.0, final: float = 0.9) -> list[Past]:
    """Runs that start at 0.1 and reach 0.9 at the given times; infinity: they stay at 0.5."""
    return [
        Past([0.0, time, time + 10], [0.1, final, final], setup_s)
        if math.isfinite(time)
        else Past([0.0, 5.0, 100.0], [0.1, 0.5, 0.5], setup_s)
        for time in times_s
    ]


def invent_study(
    pasts: Mapping[str, Sequence[Past]],
    *,
    methods: Mapping[str, str] | None = None,
    task: str = "classification",
    optimum: float | None = None,
) -> Study:
    """A study whose labels have one run per seed, in order; a label is its method unless said."""
    runs = tuple(
        _invent_run(label, (methods or {}).get(label, label), seed, past, task)
        for label, each in pasts.items()
        for seed, past in enumerate(each)
    )
    seeds = tuple(range(max((len(each) for each in pasts.values()), default=0)))
    problem = ProblemFacts(
        name="invented",
        clients=2,
        rows=10,
        features=3,
        outputs=1,
        test_rows=5,
        task="regression" if task == "regression" else "classification",
        client_rows=(5, 5),
        classes=None,
        client_classes=None,
        optimum_loss=optimum if task == "regression" else None,
        optimum_accuracy=optimum if task == "classification" else None,
    )
    manifest = Manifest(
        "invented", "complete", "0", "3", {}, None, "hash", {}, seeds, None, problem
    )
    return Study(Path("nowhere"), manifest, runs)


def _invent_run(label: str, method: str, seed: int, past: Past, task: str) -> Run:
    scores = np.array(past.scores, dtype=np.float64)
    nothing = np.full(scores.size, np.nan)
    accuracy, loss = (nothing, scores) if task == "regression" else (scores, nothing)
    final = float(scores[-1])
    trace = Trace(
        round=np.arange(scores.size) if past.rounds is None else np.array(past.rounds),
        training_time_s=np.array(past.times_s, dtype=np.float64),
        loss=loss,
        accuracy=accuracy,
        loss_last=loss,
        accuracy_last=accuracy,
        loss_average=loss,
        accuracy_average=accuracy,
        bytes_up=np.zeros(scores.size),
        bytes_down=np.zeros(scores.size),
    )
    return Run(
        label=label,
        method=method,
        parameters={},
        seed=seed,
        rounds=scores.size - 1,
        setup_counted=True,
        setup_time_s=past.setup_s,
        training_time_s=float(past.times_s[-1]),
        learned="last",
        loss=final if task == "regression" else None,
        accuracy=final if task == "classification" else None,
        loss_last=None,
        accuracy_last=None,
        loss_average=None,
        accuracy_average=None,
        diverged=past.diverged,
        reason="too fast" if past.diverged else None,
        bytes_up=100.0,
        bytes_down=50.0,
        setup_bytes_up=10.0,
        coded_rows=None,
        deadline_s=None,
        coding=None,
        folder=Path("nowhere"),
        trace=trace,
    )
