"""Run a study: check it, do what is missing, and write down what came out."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from scfl.data.problem import Problem
from scfl.errors import ConfigError, InfeasibleError, ParameterError, RunError
from scfl.errors import Problem as Issue
from scfl.runtime.evaluation import evaluate_models
from scfl.runtime.stability import InstabilityWarning
from scfl.study.availability import describe_availability
from scfl.study.config import StudyConfig, check_tables, read_tables
from scfl.study.feasibility import find_crowding, find_haste, first_round_ends
from scfl.study.folder import StudyFolder
from scfl.study.foresight import foresee_trouble
from scfl.study.jobs import (
    Job,
    describe_parameters,
    draw_fleet,
    list_jobs,
    list_search_jobs,
    settle_method,
)
from scfl.study.orphan import stop_without
from scfl.study.outcome import Outcome, execute
from scfl.study.search import (
    Choice,
    choose_rates,
    list_next_rates,
    settle_rates,
    sum_up_tries,
)
from scfl.study.sharing import hold_problem, prepare_problem
from scfl.study.source import load_problem

REPORTED_PACKAGES = ("numpy", "scipy", "scikit-learn", "joblib", "pyarrow")
# Solving for the optimum costs d^2 m + d^3; beyond this width it is left out.
_WIDEST_SOLVED = 5000

OnDone = Callable[[Job, Mapping[str, Any]], None]


@dataclass(frozen=True)
class Ready:
    """A study whose configuration and data have been found sound; ``warnings`` may remain."""

    study: StudyConfig
    problem: Problem
    warnings: tuple[str, ...] = ()

    @property
    def runs(self) -> int:
        """How many runs it takes, those that a search begins with included."""
        return len(list_search_jobs(self.study)) + len(list_jobs(self.study))


def check_file(path: Path, overrides: Sequence[str] = ()) -> Ready:
    """Read a configuration; raise one error with all that is wrong with it and its data."""
    tables = read_tables(path, overrides)
    try:
        study = check_tables(tables, name=path.stem, folder=path.parent)
    except ConfigError as error:
        # Where the data comes from may be plain whatever else is not.
        source: dict[str, Any] = {"clock": {"rounds": 1}, "methods": {"fedavg": {}}}
        source |= {key: table for key, table in tables.items() if key in ("problem", "partition")}
        try:
            load_problem(check_tables(source, name="data", folder=path.parent))
        except ConfigError as data_error:
            issues = dict.fromkeys((*error.problems, *data_error.problems))
            raise ConfigError(list(issues)) from None
        raise
    return check_study(study)


def check_study(study: StudyConfig) -> Ready:
    """Build the problem and every plan; raise one error with all that is wrong."""
    problem = load_problem(study)
    issues: dict[str, Issue] = {}
    ends_s: list[float] = []
    for job in list_jobs(study):
        try:
            fleet = draw_fleet(job, problem)
            plan = settle_method(job, problem, fleet).plan(problem.shape, fleet)
            found = find_crowding(plan, problem.features.dtype.itemsize)
            ends_s.append(first_round_ends(plan, fleet, study.clock))
        except (ParameterError, InfeasibleError) as error:
            found = list(error.problems)
        for issue in found:
            spelled = _spell(issue.within(f"methods.{job.label}"), job)
            # One sentence per key: that of the seed which needs most stands for all.
            if spelled.where not in issues or spelled.enough > issues[spelled.where].enough:
                issues[spelled.where] = spelled
    if not issues:
        issues = {issue.where: issue for issue in find_haste(study.clock, ends_s)}
    if issues:
        raise ConfigError(list(issues.values()))
    return Ready(study, problem, foresee_trouble(study, problem))


def _spell(issue: Issue, job: Job) -> Issue:
    """Name parameters as a file does, and the seed whose fleet is meant."""
    where, sentence = issue.where.replace("_", "-"), issue.sentence
    for parameter in fields(job.method):
        sentence = sentence.replace(parameter.name, parameter.name.replace("_", "-"))
    seed = f" (with seed {job.seed})" if job.fleet.random_state is None else ""
    return replace(issue, where=where, sentence=sentence + seed)


def run_study(
    ready: Ready,
    out: Path,
    *,
    jobs: int = 1,
    on_done: OnDone | None = None,
    on_more: Callable[[int], None] | None = None,
) -> list[dict[str, Any]]:
    """Run what is missing and return one summary per run, in the order of the configuration.

    Finished runs are kept as they finish, so an interrupted study goes on where it stopped. The
    runs go through joblib: ``joblib.parallel_config`` moves them to Dask or Ray. A search that goes
    beyond its list tells ``on_more`` how many runs that adds.
    """
    started = time.monotonic()
    folder = StudyFolder(out)
    manifest = _describe(ready)
    folder.claim({**manifest, "status": "running", "wall_time_s": None, "cpu_time_s": None})
    spent_s: list[float] = []

    def finish(status: str, summaries: Sequence[Mapping[str, Any]]) -> None:
        took = {
            "wall_time_s": round(time.monotonic() - started, 3),
            "cpu_time_s": round(sum(spent_s), 3),
        }
        folder.write("results.json", summaries)
        folder.write("manifest.json", {**manifest, "status": status, **took})

    search, wanted = [], list_search_jobs(ready.study)
    tried = sum_up_tries([], [])
    while wanted:
        search += wanted
        failures = _run_missing(folder, wanted, ready, jobs=jobs, on_done=on_done, spent_s=spent_s)
        if failures:
            finish("incomplete", [])
            raise _failed(failures, len(search), out)
        tried = sum_up_tries(search, [folder.read_summary(job) for job in search])
        wanted = list_search_jobs(ready.study, list_next_rates(ready.study.search, tried))
        if on_more is not None:
            on_more(len(wanted))
    choices = choose_rates(tried)
    main = list_jobs(settle_rates(ready.study, choices))
    failures = _run_missing(folder, main, ready, jobs=jobs, on_done=on_done, spent_s=spent_s)
    summaries = [
        {**folder.read_summary(job), "search": _describe_choice(choices.get(job.label))}
        for job in main
        if folder.has(job)
    ]
    finish("incomplete" if failures else "complete", summaries)
    if failures:
        raise _failed(failures, len(main), out)
    return summaries


def _run_missing(
    folder: StudyFolder,
    wanted: Sequence[Job],
    ready: Ready,
    *,
    jobs: int,
    on_done: OnDone | None,
    spent_s: list[float],
) -> list[str]:
    """Do the runs that are not there yet; one sentence for each that failed.

    What each took of its processor's time goes to ``spent_s``.
    """
    labels = list(dict.fromkeys(job.label for job in wanted))
    # Runs that differ in their learning rate only go one after another: they share their code.
    in_turn = sorted(wanted, key=lambda job: (labels.index(job.label), job.seed))
    missing = [job for job in in_turn if not folder.has(job)]
    if on_done is not None:
        for job in in_turn:
            if job not in missing:
                on_done(job, folder.read_summary(job))
    shared = prepare_problem(ready.study, ready.problem) if missing else None
    attempts = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)(
        delayed(_attempt)(number, job, shared, os.getpid()) for number, job in enumerate(missing)
    )
    failures = []
    for number, outcome, cpu_s in attempts:
        job = missing[number]
        spent_s.append(cpu_s)
        if isinstance(outcome, str):
            failures.append(f"{job.label}, seed {job.seed}: {outcome}")
            continue
        folder.keep(job, outcome)
        if on_done is not None:
            on_done(job, outcome.summary)
    return failures


def _failed(failures: Sequence[str], runs: int, out: Path) -> RunError:
    return RunError(
        f"{len(failures)} of {runs} runs failed; the others are in {out}: "
        + "; ".join(failures[:3])
    )


def _describe_choice(choice: Choice | None) -> dict[str, Any] | None:
    return None if choice is None else {**asdict(choice), "at_edge": choice.at_edge}


def _attempt(
    number: int, job: Job, shared: Problem | None, study: int
) -> tuple[int, Outcome | str, float]:
    """Run one job of the process ``study`` and time it; a failure is its own only."""
    stop_without(study)
    started = time.process_time()
    outcome: Outcome | str
    try:
        with warnings.catch_warnings():
            # The study has warned already, and the record keeps what this run saw.
            warnings.simplefilter("ignore", InstabilityWarning)
            outcome = execute(job, hold_problem(job.source, shared))
    except Exception as error:  # noqa: BLE001 - whatever it was, the user reads it
        outcome = f"{type(error).__name__}: {error}"
    return number, outcome, time.process_time() - started


def _describe(ready: Ready) -> dict[str, Any]:
    config = _describe_config(ready.study)
    search, main = list_search_jobs(ready.study), list_jobs(ready.study)
    section = ready.study.search
    further = [[section.widen, section.refine]] if section.goes_on else []
    return {
        "format": 1,
        "name": ready.study.name,
        "scfl_version": version("scfl"),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in REPORTED_PACKAGES},
        "commit": find_commit(),
        "config_hash": hashlib.sha256(
            json.dumps([*[[job.label, job.key] for job in (*search, *main)], *further]).encode()
        ).hexdigest(),
        "config": config,
        "seeds": list(ready.study.seeds),
        "problem": _describe_problem(ready.problem),
    }


def _describe_config(study: StudyConfig) -> dict[str, Any]:
    """The configuration with every default filled in, as it could stand in a file."""
    sections = ("problem", "partition", "fleet", "clock", "report", "search", "privacy")
    config: dict[str, Any] = {
        "name": study.name,
        "seeds": list(study.seeds),
        **{name: asdict(getattr(study, name)) for name in sections},
        "availability": describe_availability(study.availability),
        "methods": {
            label: {"method": method.name, **describe_parameters(method)}
            for label, method in study.methods.items()
        },
    }
    kebab: dict[str, Any] = json.loads(json.dumps(_kebab(config)))
    return kebab


def _kebab(value: Any) -> Any:
    if isinstance(value, dict):
        given = {key: item for key, item in value.items() if item is not None}
        return {key.replace("_", "-"): _kebab(item) for key, item in given.items()}
    return value


def _describe_problem(problem: Problem) -> dict[str, Any]:
    shape, counts = problem.shape, problem.client_classes()
    optimum: tuple[float | None, float | None] = (None, None)
    if shape.features <= _WIDEST_SOLVED:
        with threadpool_limits(1, "blas"):
            loss, accuracy = evaluate_models(problem, [problem.moments.solution])[0]
        optimum = (loss, accuracy if problem.task == "classification" else None)
    return {
        "name": problem.name,
        "task": problem.task,
        "clients": shape.clients,
        "rows": shape.rows,
        "features": shape.features,
        "outputs": shape.outputs,
        "test_rows": len(problem.test_features),
        "client_rows": shape.client_rows.tolist(),
        "classes": None if problem.classes is None else problem.classes.tolist(),
        "client_classes": None if counts is None else counts.tolist(),
        "optimum_loss": optimum[0],
        "optimum_accuracy": optimum[1],
        "row_norm": problem.row_norm,
        "rows_scaled_down": None if problem.scaled_down is None else problem.scaled_down.tolist(),
    }


def find_commit() -> str | None:
    """The commit of the code, where it runs from a checkout."""
    here = Path(__file__).resolve()

    def git(*words: str) -> str:
        command = ["git", "-C", str(here.parent), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        return done.stdout.strip()

    try:
        # An installed copy may lie inside somebody else's repository.
        git("ls-files", "--error-unmatch", here.name)
        return git("rev-parse", "HEAD")
    except (OSError, subprocess.SubprocessError):
        return None
