"""What each method decides, against the formulas of its paper written out by hand."""

from __future__ import annotations

import numpy as np
import pytest

import scfl
from scfl.errors import InfeasibleError, ParameterError
from scfl.methods.protocol import All, Arrivals, Deadline, Fastest, State
from scfl.methods.schedule import descend, step_size

SHAPE = scfl.Shape(np.array([30, 20, 10, 40]), 6, 2)
STATE = State(np.ones((6, 2)), np.ones((6, 2)))


def fleet(erasure: float = 0.1) -> scfl.Fleet:
    return scfl.wireless_edge(4, random_state=3, erasure=erasure)


def test_scfl_weighs_by_arrival_probability_and_makes_up_for_the_noise() -> None:
    method = scfl.SCFL(noise=0.5, coded_rows=9, deadline_s=0.02)
    plan = method.plan(SHAPE, fleet())
    combination = method.combine(plan, Arrivals(0, np.ones(4, bool)), STATE)
    spare = plan.wait.seconds - fleet().work(SHAPE, plan.loads).compute_s
    attempts = np.floor((spare - 6 * 2 * 32 * 1.1 / 1e6) * fleet().uplink_bps / (6 * 2 * 32 * 1.1))
    np.testing.assert_allclose(combination.clients, 0.5 / (1 - 0.1**attempts))
    np.testing.assert_allclose(combination.coded, [0.5])
    assert combination.shrink == pytest.approx(0.5 * 4 * 0.5**2)


def test_scfl_without_redundant_settings_follows_its_redundancy() -> None:
    plan = scfl.SCFL(redundancy=0.2).plan(SHAPE, fleet())
    assert plan.code is not None
    assert plan.code.rows.tolist() == [20] * 4
    assert isinstance(plan.wait, Deadline)
    assert (plan.loads * plan.arrival_probability).sum() >= 0.8 * plan.loads.sum()


def test_scfl_server_rows_are_what_it_finishes_by_the_deadline() -> None:
    plan = scfl.SCFL(coded_rows=10**6, deadline_s=0.05).plan(SHAPE, fleet())
    assert plan.code is not None
    assert plan.code.server_rows == int(0.05 * 15_360e3 / (2 * 6 * 2))
    small = scfl.SCFL(coded_rows=7, deadline_s=0.05).plan(SHAPE, fleet())
    assert small.code is not None
    assert small.code.server_rows == 7


def test_stacked_layout_shares_the_coded_rows_out() -> None:
    plan = scfl.SCFL(coded_rows=10, layout="stacked").plan(SHAPE, fleet())
    assert plan.code is not None
    assert sorted(plan.code.rows.tolist()) == [2, 2, 3, 3]
    assert plan.code.blocks == 4


def test_a_deadline_nobody_meets_names_the_clients_and_one_that_works() -> None:
    with pytest.raises(InfeasibleError, match=r"leaves client 0, client 1, .* no chance") as error:
        scfl.SCFL(deadline_s=1e-4).plan(SHAPE, fleet())
    enough = float(str(error.value).split("give at least ")[1].split(" s")[0])
    assert (scfl.SCFL(deadline_s=enough).plan(SHAPE, fleet()).arrival_probability > 0).all()


def test_unreachable_clients_are_left_out_when_asked() -> None:
    edge = fleet().law.earliest(fleet().work(SHAPE, scfl.Batches().loads(SHAPE, fleet())))
    deadline = float(np.sort(edge)[-2:].mean())
    plan = scfl.SCFL(deadline_s=deadline, exclude_unreachable=True).plan(SHAPE, fleet())
    assert (plan.loads == 0).sum() == 1
    assert plan.loads[edge.argmax()] == 0
    combination = scfl.SCFL().combine(plan, Arrivals(0, plan.loads > 0), STATE)
    assert combination.clients[edge.argmax()] == 0


def test_fedavg_waits_for_all_and_averages() -> None:
    plan = scfl.FedAvg().plan(SHAPE, fleet())
    assert plan.wait == All()
    combination = scfl.FedAvg().combine(plan, Arrivals(0, np.ones(4, bool)), STATE)
    np.testing.assert_allclose(combination.clients, 1.0)


def test_fl_pma_averages_over_who_arrived() -> None:
    method = scfl.FLPMA(drop_fraction=0.5)
    plan = method.plan(SHAPE, fleet())
    assert plan.wait == Fastest(2)
    arrived = np.array([True, False, True, False])
    np.testing.assert_allclose(method.combine(plan, Arrivals(0, arrived), STATE).clients, 100 / 40)


def test_steps() -> None:
    direction = np.full((6, 2), 2.0)
    after = descend(descend(STATE, direction, 5.0, rows=100), direction, 5.0, rows=100)
    np.testing.assert_allclose(after.model, 1 - 2 * 0.05 * 2)
    np.testing.assert_allclose(after.average, ((1 - 0.1) + (1 - 0.2)) / 2)
    assert after.round == 2


def test_step_decay_and_theorem_one() -> None:
    decay = scfl.StepDecay(4.0, 0.5, (2, 3))
    assert [step_size(decay, number, 2) for number in range(5)] == [2.0, 2.0, 1.0, 0.5, 0.5]
    printed = scfl.TheoremOne(smoothness=10.0, radius=3.0, variance=5.0)
    gamma = (4 * 3.0**2 / (5.0 * 7)) ** 0.5
    assert step_size(printed, 6, 2) == pytest.approx(1 / (10.0 + 1 / gamma))


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"noise": -1.0}, "noise: -1.0 is not allowed"),
        ({"coded_rows": 0}, "coded_rows: 0 is not allowed; give a whole number at least 1"),
        ({"redundancy": 1.5}, "redundancy: 1.5 is not allowed"),
        ({"learning_rate": 0}, "learning_rate: 0 is not allowed"),
        ({"learning_rate": "fast"}, "learning_rate: 'fast' is not allowed"),
        ({"layout": "sumed"}, "layout: 'sumed' is not known; did you mean 'summed'?"),
        ({"deadline_s": float("nan")}, "deadline_s: nan is not allowed"),
    ],
)
def test_wrong_parameters_get_a_sentence(parameters: dict[str, object], sentence: str) -> None:
    with pytest.raises(ParameterError) as error:
        scfl.SCFL(**parameters)  # type: ignore[arg-type]
    assert sentence in str(error.value)


def test_all_wrong_parameters_are_reported_at_once() -> None:
    with pytest.raises(ParameterError) as error:
        scfl.SCFL(noise=-1.0, coded_rows=0, redundancy=7)
    assert [problem.where for problem in error.value.problems] == [
        "redundancy",
        "coded_rows",
        "noise",
    ]


def test_more_server_rows_than_held_is_refused() -> None:
    with pytest.raises(InfeasibleError, match=r"server_rows: 9 rows a round, but .* holds 5"):
        scfl.SCFL(coded_rows=5, server_rows=9).plan(SHAPE, fleet())


def test_fl_ipw_is_scfl_less_its_code() -> None:
    """Same deadline, loads and probabilities; the clients' half counts whole."""
    batches = scfl.Batches(2, redundancy=0.2)
    with_code = scfl.SCFL(batches=batches, coded_rows=9)
    without = scfl.FLIPW(batches=batches)
    one, other = with_code.plan(SHAPE, fleet()), without.plan(SHAPE, fleet())
    assert one.wait == other.wait
    np.testing.assert_array_equal(one.loads, other.loads)
    everybody = Arrivals(0, np.ones(4, bool))
    halves = with_code.combine(one, everybody, STATE).clients
    np.testing.assert_allclose(without.combine(other, everybody, STATE).clients, 2 * halves)
    assert other.code is None


def test_stacked_rows_follow_sizes_or_weights() -> None:
    def rows(**given: object) -> list[int]:
        plan = scfl.SCFL(coded_rows=20, layout="stacked", **given).plan(SHAPE, fleet())  # type: ignore[arg-type]
        assert plan.code is not None
        return plan.code.rows.tolist()

    assert rows(rows_by="equal") == [5, 5, 5, 5]
    # One row each, and the other 16 in proportion to 30, 20, 10 and 40.
    assert rows(rows_by="size") == [6, 4, 3, 7]
    assert rows(rows_by=(1.0, 1.0, 1.0, 5.0)) == [3, 3, 3, 11]
    with pytest.raises(InfeasibleError, match="2 weights for 4 clients; give one per client"):
        rows(rows_by=(1.0, 2.0))
    with pytest.raises(ParameterError, match="'energy' is not known"):
        scfl.SCFL(rows_by="energy")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"rows_by: -1\.0 is not allowed"):
        scfl.SCFL(rows_by=(-1.0, 2.0))


def test_batches_beyond_what_anybody_holds_are_refused() -> None:
    shape, fleet = scfl.Shape(np.array([10, 40]), 3, 1), scfl.wireless_edge(2)
    with pytest.raises(InfeasibleError, match=r"batches.rows: 11 rows .* give at most 10"):
        scfl.FedAvg(batches=scfl.Batches(subsets=4, rows=11)).plan(shape, fleet)
    plan = scfl.FedAvg(batches=scfl.Batches(subsets=4, rows=10)).plan(shape, fleet)
    assert plan.loads.tolist() == [3, 10]
