"""The runs of a study: one job per method and seed, each a pure function of what determines it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from scfl.core.availability import Always, Availability
from scfl.core.fleet import Fleet
from scfl.data.problem import Problem
from scfl.methods.protocol import Method
from scfl.methods.schedule import StepDecay
from scfl.privacy.budget import Budget
from scfl.runtime.calibration import calibrate
from scfl.study.availability import describe_availability
from scfl.study.config import StudyConfig
from scfl.study.sections import ClockSection, FleetSection
from scfl.study.source import ProblemSource, locate_problem

# Raise it when the same configuration would give other numbers: old runs are then done again.
RESULTS_VERSION = 1


@dataclass(frozen=True)
class Job:
    """One run: a method on a problem, a fleet and a seed."""

    label: str
    method: Method
    seed: int
    source: ProblemSource
    fleet: FleetSection
    clock: ClockSection
    privacy: Budget = Budget()
    stage: Literal["runs", "search"] = "runs"
    availability: Availability = Always()

    @property
    def key(self) -> str:
        """The hash of everything that determines the outcome."""
        parts = {
            "version": RESULTS_VERSION,
            "method": self.method.name,
            "parameters": describe_parameters(self.method),
            "seed": self.seed,
            "fleet": self.fleet.describe(),
            "clock": self.clock.describe(),
            **({"privacy": asdict(self.privacy)} if self.privacy != Budget() else {}),
            **self.source.describe(),
        }
        if self.availability != Always():
            parts["availability"] = describe_availability(self.availability)
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @property
    def folder(self) -> str:
        """Where the run is kept, within the study's folder."""
        word = re.sub(r"[^A-Za-z0-9.]+", "-", self.label).strip("-") or "run"
        return f"{self.stage}/{word}-seed{self.seed}-{self.key[:12]}"


def list_jobs(study: StudyConfig) -> list[Job]:
    """All runs of a study, method by method and seed by seed."""
    source = locate_problem(study)
    return [
        _make_job(study, source, label, method, seed)
        for label, method in study.methods.items()
        for seed in study.seeds
    ]


def list_search_jobs(
    study: StudyConfig, rates: Mapping[str, Sequence[float]] | None = None
) -> list[Job]:
    """The runs that choose each method's learning rate; none without a search.

    ``rates`` says which are to be tried for each label, those of the configuration by default.
    """
    source, search = locate_problem(study), study.search
    return [
        replace(
            _make_job(study, source, label, with_rate(method, rate), seed),
            clock=_look_seldom(study.clock),
            stage="search",
        )
        for label, method in study.methods.items()
        if can_be_searched(method)
        for rate in (search.learning_rates if rates is None else rates.get(label, ()))
        for seed in search.seeds or study.seeds[:1]
    ]


def _make_job(
    study: StudyConfig, source: ProblemSource, label: str, method: Method, seed: int
) -> Job:
    return Job(
        label=label,
        method=method,
        seed=seed,
        source=source,
        fleet=study.fleet,
        clock=study.clock,
        privacy=study.privacy,
        availability=study.availability,
    )


def _look_seldom(clock: ClockSection) -> ClockSection:
    """Of a run in the search only the end counts, and whether it diverges on the way there."""
    if clock.evaluate_growth is not None:
        return replace(clock, evaluate_growth=max(clock.evaluate_growth, 1.0))
    if clock.evaluate_every_s is None or clock.horizon_s is None:
        return clock
    return replace(clock, evaluate_every_s=max(clock.evaluate_every_s, clock.horizon_s / 10))


def can_be_searched(method: Method) -> bool:
    """Whether a method's learning rate is a number, or a schedule that starts from one."""
    return isinstance(getattr(method, "learning_rate", None), (int, float, StepDecay))


def with_rate(method: Method, rate: float) -> Method:
    """The same method with another learning rate; a schedule keeps its shape."""
    own = getattr(method, "learning_rate", None)
    changed = replace(own, start=rate) if isinstance(own, StepDecay) else rate
    return replace(method, learning_rate=changed)


def rate_of(method: Method) -> float:
    """The learning rate that a method starts with."""
    own = getattr(method, "learning_rate", None)
    return float(own.start if isinstance(own, StepDecay) else own)  # type: ignore[arg-type]


def draw_fleet(job: Job, problem: Problem) -> Fleet:
    """The machines of one run."""
    drawn = job.fleet.draw(problem.shape.clients, job.seed)
    return replace(drawn, availability=job.availability)


def settle_method(job: Job, problem: Problem, fleet: Fleet) -> Method:
    """The method of a job with the noise that the study's budget asks for."""
    return calibrate(job.method, problem, fleet, job.privacy)


def describe_parameters(method: Method) -> dict[str, Any]:
    """A method's parameters as plain values."""
    plain: dict[str, Any] = json.loads(json.dumps(asdict(method)))
    return plain
