"""What the upload before the first round costs, and what the server then holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import scfl
from scfl.core.coding import CodedData, Noise
from scfl.core.sampling import Subsets
from scfl.methods.protocol import Code, Deadline, Plan, ServerOnly
from scfl.runtime.encoding import Coding, collect_code, hold_code, price_setup
from scfl.testing import small_problem

# The slowest and the fastest client of the paper's edge, with a tenth of all data each.
SHAPE = scfl.Shape(np.array([3000, 3000]), features=2000, outputs=10)
EDGE = scfl.Fleet(
    macs_per_s=np.array([0.1536e6, 1.536e6]),
    uplink_bps=np.array([0.3e6, 1e6]),
    downlink_bps=1e6,
    server_macs_per_s=15.36e6,
)

EDGE_OF_5 = scfl.wireless_edge(5)


def plan_for(code: Code, *, subsets: int = 1, server_setup_macs: float = 0.0) -> Plan:
    return Plan(
        shape=SHAPE,
        loads=np.array([100, 100]),
        wait=Deadline(10.0),
        sampling=Subsets(subsets),
        code=code,
        server_setup_macs=server_setup_macs,
    )


def test_a_summed_code_is_computed_and_sent_by_everybody() -> None:
    """c l (d + o) = 36.18e9 MAC at 0.1536 and 1.536 MMAC/s; 6000 rows of 2010 numbers."""
    setup = price_setup(plan_for(Code(np.full(2, 6000), 100)), EDGE)
    assert setup.encoding_s == pytest.approx([235_546.875, 23_554.6875])
    assert setup.upload_s == pytest.approx([1286.4 * 1.1 / 0.9, 471.68])
    assert setup.upload_bytes == pytest.approx([53.064e6, 53.064e6])
    assert setup.seconds == pytest.approx(235_546.875 + 1286.4 * 1.1 / 0.9)


def test_the_other_layouts_cost_a_fraction() -> None:
    """REFERENCE.md section 4: stacked 300 of 6000 rows; CodedFedL 30 codes of 200 rows."""
    stacked = price_setup(plan_for(Code(np.full(2, 300), 600, layout="stacked")), EDGE)
    assert stacked.encoding_s == pytest.approx([11_777.34, 1_177.73], abs=0.01)
    code = Code(np.full(2, 200), 200, per_subset=True)
    per_subset = price_setup(plan_for(code, subsets=30), EDGE)
    assert per_subset.encoding_s == pytest.approx([7_851.56, 785.16], abs=0.01)
    assert per_subset.upload_bytes == pytest.approx([53.064e6, 53.064e6])


def test_products_are_symmetric_and_the_server_pays_for_factoring_them() -> None:
    """2010 * 2011 / 2 numbers, each a product per row; the server's work comes on top."""
    code = Code(np.full(2, 2010), 2010, content="products")
    setup = price_setup(plan_for(code, server_setup_macs=15.36e6 * 7), EDGE)
    numbers = 2010 * 2011 / 2
    assert setup.encoding_s == pytest.approx(3000 * numbers / EDGE.macs_per_s)
    assert setup.upload_bytes == pytest.approx([numbers * 4 * 1.1] * 2)
    assert setup.server_s == pytest.approx(7)
    assert setup.seconds == pytest.approx(float((setup.encoding_s + setup.upload_s).max()) + 7)


def hold_products(problem: scfl.Problem) -> CodedData:
    plan = scfl.OneShot().plan(problem.shape, scfl.wireless_edge(5))
    held = collect_code(problem.arrange(1), plan, 0, "clients")
    assert held is not None
    return held


def test_products_give_the_exact_gradient() -> None:
    problem = small_problem()
    held = hold_products(problem)
    model = np.array([[0.7, -0.4], [0.2, 0.9], [-0.6, 0.3]])
    X, Y = held.store.features, held.store.targets
    exact = problem.features.T @ (problem.features @ model - problem.targets)
    np.testing.assert_allclose(X.T @ (X @ model - Y) / held.rows, exact, rtol=1e-10)


def test_one_shot_is_done_after_one_round_with_the_solution() -> None:
    problem, fleet = small_problem(), scfl.wireless_edge(5)
    result = scfl.simulate(problem, fleet, scfl.OneShot(), rounds=50)
    solution = np.linalg.lstsq(problem.features, problem.targets, rcond=None)[0]
    assert result.rounds == 1
    assert result.setup.server_s > 0
    np.testing.assert_allclose(result.model, solution, rtol=1e-9)
    assert isinstance(result.plan.wait, ServerOnly)
    assert result.ledger.bytes_up.sum() == 0


def test_one_shot_solves_what_has_more_columns_than_rows() -> None:
    """The shortest of all solutions, as least squares means it."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12, 30)), rng.standard_normal(12)
    problem = scfl.make_problem(X, y, clients=3, dtype="float64")
    result = scfl.simulate(problem, scfl.wireless_edge(3), scfl.OneShot(), rounds=1)
    shortest = np.linalg.lstsq(problem.features, problem.targets, rcond=None)[0]
    np.testing.assert_allclose(result.model, shortest, atol=1e-4 * np.abs(shortest).max())


@pytest.mark.parametrize("coding", ["clients", "gram-shortcut"])
@pytest.mark.parametrize(
    "method", [scfl.SCFL(), scfl.CFLFB(), scfl.CodedFedL()], ids=lambda m: m.name
)
def test_a_code_is_made_once_for_every_learning_rate(method, coding) -> None:
    problem = small_problem()
    first, again = (
        scfl.simulate(
            problem, EDGE_OF_5, replace(method, learning_rate=rate), rounds=2, coding=coding
        )
        for rate in (0.1, 0.2)
    )
    assert first.held is again.held is not None
    alone = scfl.simulate(
        small_problem(), EDGE_OF_5, replace(method, learning_rate=0.2), rounds=2, coding=coding
    )
    np.testing.assert_array_equal(again.held.store.features, alone.held.store.features)
    np.testing.assert_array_equal(again.model_last, alone.model_last)


def test_what_determines_a_code_makes_another() -> None:
    """Seed, coding, rows, noise and layout; the loads where processed rows have a weight."""
    problem = small_problem()
    store, plan = problem.arrange(1), scfl.CFLFB(redundancy=0.3).plan(problem.shape, EDGE_OF_5)
    code = plan.code
    assert code is not None
    assert code.processed_weight is not None
    plain = replace(plan, code=replace(code, processed_weight=None))

    def hold(plan: Plan, seed: int = 0, coding: Coding = "clients") -> CodedData | None:
        return hold_code(problem, store, plan, seed, coding)

    def others(plan: Plan) -> list[tuple[Plan, int, Coding]]:
        changed = [
            replace(code, rows=code.rows + 1),
            replace(code, noise=Noise(1.0)),
            replace(code, layout="stacked"),
        ]
        return [
            (plan, 1, "clients"),
            (plan, 0, "gram-shortcut"),
            *((replace(plan, code=one), 0, "clients") for one in changed),
            (replace(plan, loads=plan.loads // 2), 0, "clients"),
        ]

    for other in others(plan):
        assert hold(plan) is not hold(*other)
    for same in (replace(plain, loads=plan.loads // 2), replace(plain, step_macs=7.0)):
        assert hold(plain) is hold(same)
    slower = replace(plan, code=replace(code, server_rows=1))
    assert hold(plan) is hold(slower)
    assert hold(plan) is not hold(plain)
