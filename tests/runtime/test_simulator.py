"""The simulator against a plain loop over rounds and clients, and the promises of its clock."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import scfl
from scfl.core.randomness import Purpose, stream
from scfl.errors import ParameterError, RunError
from scfl.methods.protocol import All, Deadline, Fastest, ServerOnly
from scfl.runtime.result import ARRIVED, LATE
from scfl.runtime.simulator import close_round, simulate
from scfl.runtime.stability import InstabilityWarning

SEED = 5


def problem(clients: int = 6, rows: int = 90, columns: int = 4) -> scfl.Problem:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, columns))
    y = X @ rng.standard_normal((columns, 2)) + 0.1 * rng.standard_normal((rows, 2))
    return scfl.make_problem(X, y, clients=clients, dtype="float64")


def fleet(clients: int = 6, **changes: float) -> scfl.Fleet:
    return scfl.wireless_edge(clients, random_state=2, erasure=0.4, **changes)


def test_scfl_round_by_round_against_a_plain_loop() -> None:
    """Client by client and row by row, with the same draws; agreement to rounding."""
    data, machines = problem(), fleet()
    method = scfl.SCFL(
        learning_rate=0.3, batches=scfl.Batches(3), coded_rows=8, noise=0.4, server_rows=8
    )
    result = simulate(data, machines, method, rounds=7, random_state=SEED)

    plan = method.plan(data.shape, machines)
    assert isinstance(plan.wait, Deadline)
    delays = machines.law.sample(
        machines.work(data.shape, plan.loads), 256, stream(SEED, Purpose.DELAYS, 0)
    )
    orders = [stream(SEED, Purpose.CLIENT_BATCHES, 0, turn).permutation(3) for turn in range(3)]
    subsets = np.concatenate(orders)
    sum_X, sum_Y = np.zeros((8, 4)), np.zeros((8, 2))
    for client in range(6):
        # Rows stand subset after subset, but a client codes them in that order too: G is iid.
        rows = np.concatenate(np.array_split(np.arange(15), 3))
        X, Y = data.features[data.client(client)][rows], data.targets[data.client(client)][rows]
        mix = stream(SEED, Purpose.CODE, client).standard_normal((8, 15))
        noise = stream(SEED, Purpose.NOISE, client).standard_normal((8, 4))
        sum_X += mix @ X + 0.4 * noise
        sum_Y += mix @ Y
    model, average = np.zeros((4, 2)), np.zeros((4, 2))
    for number in range(7):
        direction = np.zeros((4, 2))
        for client in range(6):
            if delays[number, client] <= plan.wait.seconds:
                part = slice(5 * subsets[number], 5 * subsets[number] + 5)
                X = data.features[data.client(client)][part]
                Y = data.targets[data.client(client)][part]
                gradient = 3 * X.T @ (X @ model - Y)
                direction += 0.5 * gradient / plan.arrival_probability[client]
        direction += 0.5 * sum_X.T @ (sum_X @ model - sum_Y) / 8
        direction -= 0.5 * 6 * 0.4**2 * model
        model = model - 0.3 / 90 * direction
        average += model
    np.testing.assert_allclose(result.model_last, model, rtol=1e-10)
    np.testing.assert_allclose(result.model_average, average / 7, rtol=1e-10)
    assert result.training_time_s == pytest.approx(7 * plan.wait.seconds)


def test_full_batch_fedavg_is_gradient_descent() -> None:
    data = problem()
    method = scfl.FedAvg(learning_rate=0.5, batches=scfl.Batches(1))
    result = simulate(data, fleet(), method, rounds=4, random_state=SEED)
    model = np.zeros((4, 2))
    for _ in range(4):
        model -= 0.5 / 90 * data.features.T @ (data.features @ model - data.targets)
    np.testing.assert_allclose(result.model_last, model, rtol=1e-10)


def test_the_clock_of_fedavg_is_the_sum_of_the_slowest() -> None:
    data, machines = problem(), fleet()
    result = simulate(data, machines, scfl.FedAvg(), rounds=300, random_state=SEED)
    work = machines.work(data.shape, scfl.Batches().loads(data.shape, machines))
    delays = np.concatenate(
        [machines.law.sample(work, 256, stream(SEED, Purpose.DELAYS, chunk)) for chunk in (0, 1)]
    )[:300]
    np.testing.assert_allclose(result.ledger.closed_s, np.cumsum(delays.max(axis=1)))
    assert (result.ledger.status == ARRIVED).all()


def test_methods_with_one_seed_meet_the_same_delays() -> None:
    data, machines = problem(), fleet()
    one = simulate(data, machines, scfl.FedAvg(), rounds=5, random_state=SEED)
    other = simulate(data, machines, scfl.FLPMA(drop_fraction=0.5), rounds=5, random_state=SEED)
    np.testing.assert_array_equal(one.ledger.delay_s, other.ledger.delay_s)


def test_results_do_not_depend_on_how_often_one_looks() -> None:
    data, machines = problem(), fleet()
    method = scfl.SCFL(coded_rows=8)
    rare, often = (
        simulate(data, machines, method, rounds=20, random_state=SEED, evaluate_every=every)
        for every in (20, 1)
    )
    assert rare.model.tobytes() == often.model.tobytes()
    assert rare.trace.round.tolist() == [0, 20]
    assert often.trace.round.tolist() == list(range(21))


def test_a_horizon_counts_the_setup_or_leaves_it_out() -> None:
    data, machines = problem(), fleet()
    method = scfl.SCFL(coded_rows=300)
    counted = simulate(data, machines, method, seconds=2.0)
    apart = simulate(data, machines, method, seconds=2.0, count_setup=False)
    assert 0 < counted.setup.seconds < 2
    assert counted.virtual_time_s <= 2.0
    assert counted.virtual_time_s == pytest.approx(counted.setup.seconds + counted.training_time_s)
    assert apart.virtual_time_s == apart.training_time_s <= 2.0
    assert apart.rounds > counted.rounds
    expected = 300 * 15 * 6 / machines.macs_per_s + 300 * 6 * 32 * 1.1 / machines.uplink_bps / 0.6
    assert counted.setup.seconds == pytest.approx(expected.max())


def test_a_horizon_shorter_than_the_setup_trains_nothing() -> None:
    result = simulate(problem(), fleet(), scfl.SCFL(coded_rows=300), seconds=0.01)
    assert result.rounds == 0
    assert result.model.any() == np.False_
    assert result.ledger.status.shape == (0, 6)


def test_who_arrives_under_each_wait_rule() -> None:
    delays = np.array([3.0, 1.0, 2.0, np.inf, 0.5])
    asked = np.array([True, True, True, True, False])
    rules = {
        Deadline(2.0): ([False, True, True, False, False], 2.0),
        Fastest(2): ([False, True, True, False, False], 2.0),
        Fastest(4): ([True, True, True, False, False], 3.0),
        All(): ([True, True, True, False, False], 3.0),
        ServerOnly(): ([False] * 5, 0.7),
    }
    for wait, (arrived, lasts) in rules.items():
        here, seconds = close_round(wait, delays, asked, 0.7)
        assert (here.tolist(), seconds) == (arrived, lasts), wait
    assert close_round(Deadline(2.0), delays, asked, 5.0)[1] == 5.0


def test_the_ledger_adds_up() -> None:
    data, machines = problem(), fleet()
    result = simulate(data, machines, scfl.SCFL(coded_rows=8), rounds=200, random_state=SEED)
    ledger, plan = result.ledger, result.plan
    assert isinstance(plan.wait, Deadline)
    in_time = ledger.delay_s <= np.float32(plan.wait.seconds * (1 + 1e-6))
    np.testing.assert_array_equal(ledger.status == ARRIVED, in_time)
    np.testing.assert_array_equal(ledger.status == LATE, ~in_time)
    np.testing.assert_allclose(
        ledger.weight_given + ledger.weight_lost,
        np.broadcast_to(0.5 / plan.arrival_probability, (200, 6)),
        rtol=1e-6,
    )
    rate, error = ledger.arrival_rate(), np.sqrt(0.25 / 200)
    np.testing.assert_allclose(rate, plan.arrival_probability, atol=4 * error)
    assert ledger.bytes_up.sum() == 200 * 6 * 4 * 2 * 4 * 1.1
    assert result.trace.bytes_up[-1] == pytest.approx(ledger.bytes_up.sum())


def test_too_large_a_rate_is_seen_and_explained() -> None:
    result = simulate(problem(), fleet(), scfl.FedAvg(learning_rate=50.0), rounds=500)
    assert result.rounds < 500
    assert "the learning rate 50 is too large" in str(result.diverged)
    safe = float(str(result.diverged).rsplit("try ", 1)[1])
    assert (
        simulate(problem(), fleet(), scfl.FedAvg(learning_rate=safe), rounds=500).diverged is None
    )
    with pytest.raises(RunError, match="no model to predict with"):
        result.predict(np.zeros((1, 4)))


def test_an_indefinite_make_up_term_is_seen_and_explained() -> None:
    method = scfl.SCFL(learning_rate=0.5, coded_rows=5, noise=6.0)
    with pytest.warns(InstabilityWarning, match="smallest eigenvalue"):
        result = simulate(problem(), fleet(), method, rounds=3000)
    assert "make-up term" in str(result.diverged)
    assert "smallest eigenvalue" in str(result.diverged)


def test_an_overflow_between_two_looks_is_seen() -> None:
    method = scfl.FedAvg(learning_rate=1e6)
    result = simulate(problem(), fleet(), method, rounds=1000, evaluate_every=1000)
    assert result.diverged is not None
    assert result.rounds < 1000


@pytest.mark.filterwarnings("ignore::scfl.InstabilityWarning")
def test_the_gram_shortcut_has_the_same_law() -> None:
    """Second moments of both kinds of summed code agree within five standard errors."""
    data, machines = problem(), fleet()
    method = scfl.SCFL(coded_rows=4, noise=0.5)
    moments = {}
    for coding in ("clients", "gram-shortcut"):
        held = [
            simulate(data, machines, method, rounds=1, random_state=seed, coding=coding).held
            for seed in range(400)
        ]
        codes = np.array([np.hstack([h.store.features, h.store.targets]) for h in held if h])
        products = np.einsum("sri,srj->sij", codes, codes) / 4
        moments[coding] = products.mean(axis=0), products.std(axis=0) / 20
    (one, error), (other, _) = moments["clients"], moments["gram-shortcut"]
    assert (np.abs(one - other) < 5 * 2**0.5 * error).all()
    assert held[0] is not None
    assert held[0].shortcut


def test_predictions_are_class_labels() -> None:
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.normal(-2, 1, (50, 2)), rng.normal(2, 1, (50, 2))])
    y = np.repeat(["no", "yes"], 50)
    data = scfl.make_problem(X, y, clients=scfl.LabelSorted(5), intercept=True)
    result = simulate(data, fleet(5), scfl.FedAvg(learning_rate=0.1), rounds=50)
    assert (result.predict(X) == y).mean() > 0.9
    assert result.accuracy == pytest.approx((result.predict(X) == y).mean())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "say how long to train"),
        ({"rounds": 0}, "rounds: 0 is not allowed"),
        ({"seconds": -1}, "seconds: -1 is not allowed"),
        ({"rounds": 1, "random_state": -2}, "random_state: -2 is not allowed"),
        ({"rounds": 1, "coding": "gram"}, "choose from clients, gram-shortcut"),
    ],
)
def test_wrong_arguments_get_a_sentence(arguments: dict[str, object], sentence: str) -> None:
    with pytest.raises(ParameterError) as error:
        simulate(problem(), fleet(), scfl.FedAvg(), **arguments)  # type: ignore[arg-type]
    assert sentence in str(error.value)


def test_a_fleet_of_another_size_is_refused() -> None:
    with pytest.raises(ParameterError, match="5 clients, but the problem has 6"):
        simulate(problem(), fleet(5), scfl.FedAvg(), rounds=1)


def test_a_large_fleet_is_no_trouble() -> None:
    data = problem(clients=1000, rows=3000)
    machines = scfl.wireless_edge(1000, random_state=0)
    result = simulate(data, machines, replace(scfl.SCFL(), coded_rows=50), rounds=20)
    assert result.diverged is None
    assert result.loss < result.trace.loss[0]


def test_looking_by_the_clock_does_not_depend_on_how_long_rounds_are() -> None:
    data, machines = problem(), fleet()
    for method in (scfl.FedAvg(), scfl.FLPMA(drop_fraction=0.5)):
        result = simulate(data, machines, method, rounds=40, evaluate_every_s=0.25)
        closed = result.ledger.closed_s
        # The first round to close in each quarter of a second, and the last of all.
        quarters = (closed // 0.25).astype(int)
        due = [
            number + 1
            for number in range(40)
            if quarters[number] > (quarters[:number].max(initial=0))
        ]
        assert result.trace.round.tolist() == sorted({0, *due, 40})


def test_looking_by_growth_is_in_every_round_at_first_and_seldom_later() -> None:
    result = simulate(problem(), fleet(), scfl.FedAvg(), rounds=40, evaluate_growth=0.5)
    assert result.trace.round.tolist() == [0, 1, 2, 3, 5, 8, 12, 18, 27, 40]
