"""What can be told of a study's runs before the first: warnings, one sentence per label."""

from __future__ import annotations

from threadpoolctl import threadpool_limits

from scfl.core.sampling import subset_count
from scfl.data.problem import Problem
from scfl.runtime.encoding import collect_code
from scfl.runtime.stability import foresee_stability, has_make_up
from scfl.study.config import StudyConfig
from scfl.study.jobs import can_be_searched, draw_fleet, list_jobs, settle_method


def foresee_trouble(study: StudyConfig, problem: Problem) -> tuple[str, ...]:
    """Make each method's code for the first seed, where a make-up term calls for it, and look.

    The other seeds' codes differ little; every run looks at its own and records what it sees.
    """
    warnings = []
    for job in list_jobs(study):
        if job.seed != study.seeds[0]:
            continue
        fleet = draw_fleet(job, problem)
        method = settle_method(job, problem, fleet)
        plan = method.plan(problem.shape, fleet)
        if not has_make_up(method, plan):
            continue
        searched = bool(study.search.learning_rates) and can_be_searched(job.method)
        with threadpool_limits(1, "blas"):
            store = problem.arrange(subset_count(plan.sampling))
            held = collect_code(store, plan, job.seed, "gram-shortcut", lambda: problem.moments)
            seen = foresee_stability(method, plan, held, rate_known=not searched)
        if seen is not None and seen.warning is not None:
            warnings.append(f"methods.{job.label}: {seen.warning}")
    return tuple(warnings)
