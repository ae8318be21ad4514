"""One problem for all processes of a machine: built once, then mapped into each worker's memory.

A large problem takes seconds to build and a gigabyte to hold. joblib hands large arrays to worker
processes as read-only files in memory, so a problem that goes along with every job costs its
workers nothing. Workers elsewhere (Dask, Ray) build their own, once each.
"""

from __future__ import annotations

from collections import Counter

from joblib.parallel import (
    LokyBackend,
    SequentialBackend,
    ThreadingBackend,
    get_active_backend,
)

from scfl.data.problem import Problem
from scfl.study.config import StudyConfig
from scfl.study.source import ProblemSource

_HERE = (LokyBackend, SequentialBackend, ThreadingBackend)

# What a worker was handed first. What it then computes of it (factors, arrangements) is kept too.
_held: dict[ProblemSource, Problem] = {}


def prepare_problem(study: StudyConfig, problem: Problem) -> Problem | None:
    """Compute what most runs ask a problem for; None where workers have to build their own."""
    backend, _ = get_active_backend()
    if not isinstance(backend, _HERE):
        return None
    batches = [getattr(method, "batches", None) for method in study.methods.values()]
    counted = Counter(rule.subsets for rule in batches if rule is not None)
    if counted:
        problem.arrange(counted.most_common(1)[0][0])
    if study.clock.coding == "gram-shortcut":
        _ = problem.moments.factor
    return problem


def hold_problem(source: ProblemSource, shared: Problem | None) -> Problem | None:
    """The problem that this process was handed first for the source."""
    if shared is None:
        return None
    if source not in _held:
        # One at a time: the next study's problem may be as large.
        _held.clear()
        _held[source] = shared
    return _held[source]
