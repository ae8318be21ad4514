"""A problem goes along with every job, and workers keep the first that they were handed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config
from joblib.parallel import ParallelBackendBase, register_parallel_backend

from scfl.data.problem import Problem, make_problem
from scfl.study.config import StudyConfig, check_tables
from scfl.study.sharing import hold_problem, prepare_problem
from scfl.study.source import build_problem, locate_problem


def study(rows: int = 60) -> StudyConfig:
    tables: dict[str, Any] = {
        "problem": {"dataset": "regression", "rows": rows, "columns": 3},
        "partition": {"clients": 4},
        "clock": {"rounds": 2, "coding": "gram-shortcut"},
        "methods": {"scfl": {"batches": {"subsets": 3}}, "dp-cfl": {"batches": {"subsets": 3}}},
    }
    return check_tables(tables, name="small")


def test_what_most_runs_ask_for_is_there_before_they_ask() -> None:
    problem = build_problem(locate_problem(study()))
    prepared = prepare_problem(study(), problem)
    assert prepared is problem
    assert prepared.arrange(3) is problem.arrange(3)
    assert "factor" in vars(problem.moments)


def test_workers_on_other_machines_build_their_own() -> None:
    class Elsewhere(ParallelBackendBase):  # type: ignore[misc]
        def effective_n_jobs(self, n_jobs: int) -> int:
            return n_jobs

        def apply_async(self, func: Any, callback: Any = None) -> None:
            raise AssertionError("nothing is run here")

    register_parallel_backend("elsewhere", Elsewhere)
    problem = build_problem(locate_problem(study()))
    with parallel_config(backend="elsewhere"):
        assert prepare_problem(study(), problem) is None
    assert hold_problem(locate_problem(study()), None) is None


def test_the_first_copy_is_kept_until_another_problem_comes() -> None:
    first, second = locate_problem(study()), locate_problem(study(80))
    one, copy = build_problem(first), replace(build_problem(first))
    assert hold_problem(first, one) is one
    assert hold_problem(first, copy) is one
    other = build_problem(second)
    assert hold_problem(second, other) is other
    assert hold_problem(first, copy) is copy


def test_one_subset_is_not_copied_and_forgets_no_arrangement() -> None:
    problem = build_problem(locate_problem(study()))
    three = problem.arrange(3)
    assert np.shares_memory(problem.arrange(1).features, problem.features)
    assert problem.arrange(3) is three


def _where_it_lies(problem: Problem) -> tuple[str, bool]:
    return type(problem.features).__name__, bool(problem.features.flags.writeable)


@pytest.mark.parametrize("rows", [200_000])
def test_worker_processes_map_large_arrays_and_cannot_write_to_them(rows: int) -> None:
    rng = np.random.default_rng(0)
    problem = make_problem(rng.standard_normal((rows, 2)), rng.standard_normal(rows), clients=2)
    found = Parallel(n_jobs=2)(delayed(_where_it_lies)(problem) for _ in range(2))
    assert found == [("memmap", False)] * 2
