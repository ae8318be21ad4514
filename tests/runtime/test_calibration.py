"""Every coding method gets the noise that its own code needs for one budget."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

import scfl
from scfl.core.coding import as_noise
from scfl.errors import InfeasibleError
from scfl.methods.protocol import Method
from scfl.methods.releases import list_releases
from scfl.privacy.accountant import account_for
from scfl.privacy.budget import Budget
from scfl.privacy.mutual_information import measure_energy, state_bits
from scfl.runtime.calibration import calibrate, state_budget


def fields_of(kind: Any) -> set[str]:
    return {field.name for field in fields(kind)}


BATCHES = scfl.Batches(4)
# Every method that codes, and the layouts and sizes that change what a client sends.
CODERS: dict[str, Any] = {
    **{name: kind() for name, kind in scfl.known_methods().items() if "noise" in fields_of(kind)},
    "scfl": scfl.SCFL(batches=BATCHES, coded_rows=60),
    "stacked": scfl.SCFL(batches=BATCHES, coded_rows=60, layout="stacked"),
    "codedfedl": scfl.CodedFedL(batches=BATCHES, redundancy=0.2),
    "cfl-fb": scfl.CFLFB(redundancy=0.2),
    "dp-cfl": scfl.DPCFL(batches=BATCHES, redundancy=0.2),
}


@pytest.fixture(scope="module")
def problem() -> scfl.Problem:
    rng = np.random.default_rng(5)
    X = rng.uniform(-0.3, 0.3, (240, 6))
    return scfl.make_problem(X, X @ rng.standard_normal(6), clients=6)


@pytest.fixture(scope="module")
def fleet() -> scfl.Fleet:
    return scfl.wireless_edge(6, random_state=1)


@pytest.mark.parametrize("name", CODERS)
def test_each_method_meets_the_printed_budget_exactly(
    name: str, problem: scfl.Problem, fleet: scfl.Fleet
) -> None:
    method = calibrate(CODERS[name], problem, fleet, Budget(mi_bits=0.02))
    printed = state_budget(problem, method.plan(problem.shape, fleet))
    assert printed is not None
    assert printed.sigma == as_noise(method.noise).sigma > 0  # type: ignore[attr-defined]
    assert printed.largest == pytest.approx(0.02)
    assert printed.largest <= 0.02


def test_fewer_coded_rows_need_less_noise(problem: scfl.Problem, fleet: scfl.Fleet) -> None:
    def sigma(name: str) -> float:
        method: Any = calibrate(CODERS[name], problem, fleet, Budget(mi_bits=0.02))
        return as_noise(method.noise).sigma

    assert sigma("stacked") < sigma("scfl")


def test_a_code_per_batch_is_counted_by_itself(problem: scfl.Problem, fleet: scfl.Fleet) -> None:
    plan = CODERS["codedfedl"].plan(problem.shape, fleet)
    printed = state_budget(problem, plan)
    assert printed is not None
    worst = 0.0
    rows = problem.features[problem.client(2)]
    for part in range(4):
        batch = rows[10 * part : 10 * part + 10]
        weights = np.ones(10)
        weights[: plan.loads[2]] = plan.code.processed_weight[2]
        bits = state_bits(
            int(plan.code.rows[2]),
            measure_energy(batch, weights),
            0.0,
            scale=float(np.abs(problem.features).max()),
        )
        worst = max(worst, float(bits))
    assert printed.bits[2] == pytest.approx(worst)


def test_a_loose_budget_needs_no_noise(problem: scfl.Problem, fleet: scfl.Fleet) -> None:
    method: Any = calibrate(CODERS["scfl"], problem, fleet, Budget(mi_bits=50.0))
    assert as_noise(method.noise).sigma == 0


def test_labels_keep_their_noise(problem: scfl.Problem, fleet: scfl.Fleet) -> None:
    own = replace(CODERS["scfl"], noise=scfl.Noise(0.0, labels=True))
    method: Any = calibrate(own, problem, fleet, Budget(mi_bits=0.02))
    assert as_noise(method.noise).labels


@pytest.mark.parametrize("method", [scfl.FedAvg(), scfl.OneShot(), scfl.SCFL(redundancy=0.0)])
def test_what_codes_nothing_stays_as_it_is(
    method: Method, problem: scfl.Problem, fleet: scfl.Fleet
) -> None:
    assert calibrate(method, problem, fleet, Budget(mi_bits=0.02)) == method


def test_noise_of_its_own_and_a_budget_are_refused(
    problem: scfl.Problem, fleet: scfl.Fleet
) -> None:
    with pytest.raises(InfeasibleError, match=r"noise: 0\.3 is given, and the budget asks"):
        calibrate(replace(CODERS["scfl"], noise=0.3), problem, fleet, Budget(mi_bits=1.0))


@pytest.mark.parametrize("name", CODERS)
def test_each_method_keeps_a_guarantee_for_rows(
    name: str, problem: scfl.Problem, fleet: scfl.Fleet
) -> None:
    budget = Budget(epsilon=1.5, delta=1e-6, row_norm=0.5)
    bounded = scfl.bound_rows(problem, 0.5)
    method = calibrate(CODERS[name], bounded, fleet, budget)
    plan = method.plan(problem.shape, fleet)
    accounts = [
        account_for(events, delta=1e-6, row_norm=0.5).coded for events in list_releases(plan, 0)
    ]
    epsilons = [account.epsilon for account in accounts if account is not None]
    assert len(epsilons) == 6
    assert max(epsilons) == pytest.approx(1.5)
    assert max(epsilons) <= 1.5


def test_a_guarantee_needs_rows_that_are_held_to_the_norm(
    problem: scfl.Problem, fleet: scfl.Fleet
) -> None:
    with pytest.raises(InfeasibleError, match="rows are not held to it"):
        calibrate(CODERS["scfl"], problem, fleet, Budget(epsilon=1, delta=1e-5, row_norm=0.5))
