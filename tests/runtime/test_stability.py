"""What is foreseen from the coded data, against the curvature that only the clients know."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import scfl
from scfl.core.theory.limit import effective_system
from scfl.runtime.stability import foresee_stability


@pytest.fixture(scope="module")
def problem():
    """Forty columns of very different sizes over five clients."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 40)) * np.geomspace(0.05, 2, 40)
    y = X @ rng.standard_normal(40) + 0.1 * rng.standard_normal(400)
    return scfl.make_problem(X, y, clients=np.arange(400) % 5, task="regression")


@pytest.fixture(scope="module")
def fleet():
    return scfl.wireless_edge(5, random_state=0)


def run(problem, fleet, method, rounds=1):
    return scfl.simulate(problem, fleet, method, rounds=rounds, random_state=3)


@pytest.mark.parametrize("layout", ["summed", "stacked"])
@pytest.mark.parametrize("sigma", [0.05, 2.0, 10.0])
@pytest.mark.filterwarnings("ignore::scfl.InstabilityWarning")
def test_the_curvature_is_foreseen(problem, fleet, layout, sigma):
    """The floor holds, and the estimate is within 0.5 n sigma^2, for codes summed and stacked."""
    result = run(problem, fleet, scfl.SCFL(coded_rows=200, noise=sigma, layout=layout))
    bias = 5 * sigma**2
    true = effective_system(problem.moments, result.held, shrink=bias).smallest_eigenvalue
    found = result.stability.curvature
    rounding = 1e-5 * float(np.linalg.eigvalsh(problem.moments.curvature)[-1])
    assert found.bias == pytest.approx(bias)
    assert found.at_least <= true + rounding
    assert abs(found.estimate - true) <= 0.5 * bias + 0.2 * abs(true)
    assert found.indefinite == (true < 0)


def test_the_model_grows_as_fast_as_is_said(problem, fleet):
    """A round's mean step multiplies the worst direction by e in the stated rounds, within 15%."""
    method = scfl.SCFL(learning_rate=0.2, coded_rows=60, noise=10.0)
    with pytest.warns(scfl.InstabilityWarning, match="e-fold in about"):
        result = run(problem, fleet, method)
    system = effective_system(problem.moments, result.held, shrink=500.0)
    step = np.eye(40) - 0.2 / 400 * 0.5 * system.curvature
    growth = float(np.linalg.eigvalsh(step)[-1])
    assert result.stability.folding_rounds * math.log(growth) == pytest.approx(1, rel=0.15)


def test_nothing_is_looked_at_without_a_make_up_term(problem, fleet):
    for method in (
        scfl.SCFL(coded_rows=60, noise=10.0, make_up=False),
        scfl.SCFL(coded_rows=60),
        scfl.DPCFL(coded_rows=60, noise=10.0),
        scfl.FedAvg(),
    ):
        assert run(problem, fleet, method).stability is None


def test_a_little_noise_is_no_cause_for_a_warning(problem, fleet):
    result = run(problem, fleet, scfl.SCFL(coded_rows=200, noise=0.01))
    assert result.stability.warning is None
    assert result.stability.folding_rounds is None


@pytest.mark.filterwarnings("ignore::scfl.InstabilityWarning")
def test_noise_that_overflows_single_precision_is_still_told(problem, fleet):
    """Everything in units of 1e-20: the squares are beyond what single precision holds."""
    method = scfl.SCFL(coded_rows=200, noise=1e21)
    plan = method.plan(problem.shape, fleet)
    held = run(problem, fleet, scfl.SCFL(coded_rows=200, noise=10.0)).held
    features = held.store.features.astype(np.float32) * np.float32(1e20)
    store = replace(held.store, features=features)
    found = foresee_stability(method, plan, replace(held, store=store))
    assert found.curvature.indefinite
    assert np.isfinite(found.curvature.estimate)


def test_blocks_that_stand_in_for_the_absent_have_no_one_limit(problem, fleet):
    """Their weights change with who arrives: nothing is foreseen, and nothing is warned of."""
    for method in (
        scfl.StandIn(coded_rows=60, noise=10.0),
        scfl.DoublyRobust(coded_rows=60, noise=10.0),
    ):
        assert run(problem, fleet, method).stability is None


def test_a_safe_make_up_term_is_no_cause_for_a_warning(problem, fleet):
    assert (
        run(problem, fleet, scfl.SCFL(coded_rows=60, noise=10.0, make_up="safe")).stability is None
    )


@pytest.mark.filterwarnings("ignore::scfl.InstabilityWarning")
def test_how_seldom_clients_arrive_changes_nothing(problem, fleet):
    """Arrivals weigh 1/p, so the clients' share of the curvature is that of the code: 1."""
    method = scfl.SCFL(coded_rows=200, noise=2.0)
    plan = method.plan(problem.shape, fleet)
    held = run(problem, fleet, method).held
    rare = replace(plan, arrival_probability=np.full(5, 0.3))
    usual, seldom = (foresee_stability(method, some, held).curvature for some in (plan, rare))
    assert seldom.estimate == pytest.approx(usual.estimate)


@pytest.mark.filterwarnings("ignore::scfl.InstabilityWarning")
def test_a_code_is_looked_at_once_for_every_learning_rate(problem, fleet):
    """Eigenvalues are dear; another code is looked at all the same."""
    rows = {"coded_rows": 200, "noise": 2.0}
    first, again = (
        run(problem, fleet, scfl.SCFL(learning_rate=rate, **rows)).stability for rate in (0.1, 0.2)
    )
    louder = run(problem, fleet, scfl.SCFL(coded_rows=200, noise=3.0)).stability
    assert again.curvature is first.curvature
    assert louder.curvature.bias > first.curvature.bias
