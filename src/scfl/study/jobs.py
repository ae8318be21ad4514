"""The runs of a study: one job per method and seed, each a pure function of what determines it."""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import scfl.data.dataset as datasets
from scfl.core.availability import Always, Availability
from scfl.core.fleet import Fleet
from scfl.data.catalogue import known_sets
from scfl.data.install import identify_set, load_set
from scfl.data.problem import Problem, make_problem
from scfl.data.row_norm import bound_rows
from scfl.data.table import load_table
from scfl.errors import ConfigError, DataError
from scfl.methods.protocol import Deadline, Method
from scfl.methods.releases import list_releases
from scfl.methods.schedule import StepDecay
from scfl.privacy.budget import Budget
from scfl.runtime.calibration import calibrate
from scfl.runtime.network.ledger import MeasuredLedger
from scfl.runtime.result import STATUSES, Ledger, Result, Trace
from scfl.runtime.simulator import simulate
from scfl.runtime.stability import Stability
from scfl.study.account import describe_privacy
from scfl.study.availability import describe_availability
from scfl.study.config import (
    ClockSection,
    FleetSection,
    PartitionSection,
    ProblemSection,
    StudyConfig,
)

# Raise it when the same configuration would give other numbers: old runs are then done again.
RESULTS_VERSION = 1


@dataclass(frozen=True)
class ProblemSource:
    """All that a problem is made from; equal sources give equal problems."""

    section: ProblemSection
    partition: PartitionSection
    path: Path | None
    digest: str
    row_norm: float | None = None

    def describe(self) -> dict[str, Any]:
        """What identifies the problem, wherever its file lies."""
        section = {**asdict(self.section), "dataset": self.digest or self.section.dataset}
        bound = {} if self.row_norm is None else {"row_norm": self.row_norm}
        return {"problem": section, "partition": asdict(self.partition), **bound}


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


@dataclass(frozen=True)
class Outcome:
    """A finished run as it is stored."""

    summary: Mapping[str, Any]
    clients: list[dict[str, Any]]
    trace: bytes
    ledger: bytes


def locate_problem(study: StudyConfig) -> ProblemSource:
    """Say where a study's problem comes from; a file or a set is named by its content."""
    section, row_norm = study.problem, study.privacy.row_norm
    if section.dataset in ("digits", "regression"):
        return ProblemSource(section, study.partition, None, "", row_norm)
    if section.dataset in known_sets():
        return ProblemSource(section, study.partition, *identify_set(section.dataset), row_norm)
    path = study.folder / section.dataset
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror}); give the path of a file "
            "relative to the configuration"
        ) from None
    return ProblemSource(section, study.partition, path.resolve(), digest, row_norm)


def load_problem(study: StudyConfig) -> Problem:
    """The problem of a study; what is wrong with a data file is said with the file's name."""
    name = study.problem.dataset
    try:
        return build_problem(locate_problem(study))
    except DataError as error:
        issues = []
        for issue in error.problems:
            known = not Path(name).suffix or name in str(issue)
            where = f"{name}: {issue.where}" if issue.where else name
            issues.append(issue.within("problem") if known else replace(issue, where=where))
        raise ConfigError(issues) from None


@lru_cache(maxsize=2)
def build_problem(source: ProblemSource) -> Problem:
    """Load rows, map features and deal out clients, once per process."""
    section, rule = source.section, source.partition.rule
    if source.path is not None and section.dataset in known_sets():
        dataset = load_set(source.path)
    elif source.path is not None and section.table is not None:
        dataset = load_table(source.path, section.table, section.task)
    elif source.path is not None:
        dataset = datasets.load_arrays(source.path)
    elif section.dataset == "digits":
        dataset = datasets.load_digits()
    else:
        dataset = datasets.make_regression(
            section.rows, section.columns, section.outputs, section.random_state
        )
    clients = dataset.clients if rule is None else rule
    if clients is None:
        raise DataError(
            "partition.kind = 'column' needs to know whose each row is: name the column in "
            f"problem.table.client, or add an array 'clients' to the .npz file ({section.dataset})"
        )
    problem = make_problem(
        dataset.X,
        dataset.y,
        clients=clients,
        features=section.features,
        scaling=dataset.scaling,
        test=dataset.test,
        test_fraction=section.test_fraction if dataset.test is None else 0.0,
        task=section.task,
        intercept=section.intercept,
        dtype=section.dtype,
        random_state=section.random_state,
        name=source.path.stem if source.path else section.dataset,
    )
    return problem if source.row_norm is None else bound_rows(problem, source.row_norm)


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


def execute(job: Job, problem: Problem | None = None) -> Outcome:
    """Run one job; safe to call in any process, on any machine that has the data.

    The ``problem`` of the job's source is built where nobody has it at hand.
    """
    problem = build_problem(job.source) if problem is None else problem
    fleet = draw_fleet(job, problem)
    result = simulate(
        problem,
        fleet,
        settle_method(job, problem, fleet),
        rounds=job.clock.rounds,
        seconds=job.clock.horizon_s,
        random_state=job.seed,
        evaluate_every=job.clock.evaluate_every,
        evaluate_every_s=job.clock.evaluate_every_s,
        evaluate_growth=job.clock.evaluate_growth,
        count_setup=job.clock.setup == "counted",
        coding=job.clock.coding,
        gradient_noise=job.privacy.protects_gradients,
    )
    privacy, client_privacy = describe_privacy(result, job.privacy)
    return Outcome(
        summary={**_summarise(job, result), "privacy": privacy},
        clients=[
            {**client, "privacy": own}
            for client, own in zip(_describe_clients(result), client_privacy, strict=True)
        ],
        trace=to_parquet(tabulate_trace(result.trace)),
        ledger=to_parquet(tabulate_ledger(result.ledger)),
    )


def describe_parameters(method: Method) -> dict[str, Any]:
    """A method's parameters as plain values."""
    plain: dict[str, Any] = json.loads(json.dumps(asdict(method)))
    return plain


def _summarise(job: Job, result: Result) -> dict[str, Any]:
    last = {
        name: _finite(getattr(result.trace, name)[-1])
        for name in (
            "loss",
            "accuracy",
            "loss_last",
            "accuracy_last",
            "loss_average",
            "accuracy_average",
        )
    }
    setup_bytes = float(result.setup.upload_bytes.sum())
    code, wait = result.plan.code, result.plan.wait
    coding = coded_rows = None
    if result.held is not None and code is not None and code.content == "sketch":
        coded_rows = result.held.rows
        coding = "gram-shortcut" if result.held.shortcut else "clients"
    return {
        "label": job.label,
        "method": job.method.name,
        "parameters": describe_parameters(result.method),
        "seed": job.seed,
        "rounds": result.rounds,
        "setup_counted": result.setup_counted,
        "setup_time_s": result.setup.seconds,
        "training_time_s": result.training_time_s,
        "virtual_time_s": result.virtual_time_s,
        "learned": result.plan.learned,
        **last,
        "diverged": result.diverged is not None,
        "reason": result.diverged,
        "bytes_up": setup_bytes + float(result.ledger.bytes_up.sum()),
        "bytes_down": float(result.ledger.bytes_down.sum()),
        "setup_bytes_up": setup_bytes,
        "coded_rows": coded_rows,
        "deadline_s": wait.seconds if isinstance(wait, Deadline) else None,
        "coding": coding,
        "stability": _describe_stability(result.stability),
        "key": job.key,
        "folder": job.folder,
    }


def _describe_stability(seen: Stability | None) -> dict[str, Any] | None:
    """What the run's own coded data told before the first round; null without a make-up term."""
    if seen is None:
        return None
    return {
        "smallest_eigenvalue": seen.curvature.estimate,
        "at_least": seen.curvature.at_least,
        "noise_bias": seen.curvature.bias,
        "folding_rounds": seen.folding_rounds,
        "warning": seen.warning,
    }


def _describe_clients(result: Result) -> list[dict[str, Any]]:
    plan, setup = result.plan, result.setup
    probability = plan.arrival_probability
    return [
        {
            "client": client,
            "name": result.problem.client_names[client],
            "rows": int(plan.shape.client_rows[client]),
            "load": int(plan.loads[client]),
            "arrival_probability": None if probability is None else float(probability[client]),
            "encoding_s": float(setup.encoding_s[client]),
            "coded_upload_s": float(setup.upload_s[client]),
            "coded_upload_bytes": float(setup.upload_bytes[client]),
            "releases": [asdict(event) for event in events],
        }
        for client, events in enumerate(list_releases(plan, result.rounds, result.gradient_noise))
    ]


def tabulate_trace(trace: Trace) -> pa.Table:
    """A curve as a table, one row per evaluation."""
    return pa.table(asdict(trace))


def tabulate_ledger(ledger: Ledger | MeasuredLedger) -> pa.Table:
    """A ledger as a table, one row per round and client."""
    rounds, clients = ledger.status.shape
    status = pa.DictionaryArray.from_arrays(
        pa.array(ledger.status.ravel(), pa.int8()), pa.array(STATUSES)
    )
    delay = ledger.delay_s.ravel()
    return pa.table(
        {
            "round": np.repeat(np.arange(1, rounds + 1, dtype=np.int32), clients),
            "client": np.tile(np.arange(clients, dtype=np.int32), rounds),
            "status": status,
            "delay_s": delay,
            "closed_s": np.repeat(ledger.closed_s, clients),
            "weight": ledger.weight_given.ravel(),
            "weight_lost": ledger.weight_lost.ravel(),
            "bytes_up": ledger.bytes_up.ravel(),
            "bytes_down": ledger.bytes_down.ravel(),
        }
    )


def to_parquet(table: pa.Table) -> bytes:
    """A table as the bytes of a file."""
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue()


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
