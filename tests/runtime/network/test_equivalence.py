"""The same arrivals give the same model on a network as in the simulator.

Tolerance: clients sum their own rows first and the simulator all rows in one pass, so results
differ by the order of additions; in float64 by less than 1e-10 of the model, in float32 1e-4.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scfl
from scfl.core.availability import Availability
from scfl.core.randomness import Purpose, stream
from scfl.methods.batches import Batches
from scfl.methods.protocol import Method
from scfl.runtime.network.terms import Terms
from scfl.runtime.result import ABSENT, ARRIVED
from tests.runtime.network.scripted import make_small_fleet, make_small_problem, replay, start

BATCHES = Batches(subsets=3)
METHODS: dict[str, Method] = {
    "scfl": scfl.SCFL(batches=BATCHES, redundancy=0.5, coded_rows=40, noise=0.1),
    "scfl-stacked": scfl.SCFL(batches=BATCHES, redundancy=0.5, coded_rows=40, layout="stacked"),
    "scfl-bernoulli": scfl.SCFL(batches=Batches(subsets=3, rule="bernoulli"), server_rows=9),
    "scfl-windows": scfl.SCFL(batches=Batches(subsets=2, rows=9), coded_rows=30),
    "fedavg": scfl.FedAvg(batches=BATCHES),
    "fl-pma": scfl.FLPMA(batches=BATCHES, drop_fraction=0.5),
    "cfl-fb": scfl.CFLFB(redundancy=0.3),
    "codedfedl": scfl.CodedFedL(batches=BATCHES, redundancy=0.3),
    "codedfedl-stacked": scfl.CodedFedL(batches=BATCHES, redundancy=0.3, layout="stacked"),
    "dp-cfl": scfl.DPCFL(coded_rows=40),
    "fl-ipw": scfl.FLIPW(batches=BATCHES, redundancy=0.5),
    "one-shot": scfl.OneShot(),
    "curvature": scfl.Curvature(batches=BATCHES, redundancy=0.5, coded_rows=40),
    "resilient": scfl.Resilient(batches=BATCHES, redundancy=0.5, coded_rows=40, noise=0.1),
    "stand-in": scfl.StandIn(batches=BATCHES, redundancy=0.5, coded_rows=40),
    "doubly-robust": scfl.DoublyRobust(batches=BATCHES, redundancy=0.5, coded_rows=40),
    "adaptive-scfl": scfl.AdaptiveSCFL(batches=BATCHES, redundancy=0.5, coded_rows=40),
    "momentum": scfl.FLIPW(batches=BATCHES, redundancy=0.5, momentum=0.5, learning_rate=0.5),
}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-10), ("float32", 1e-4)])
def test_scripted_arrivals_give_the_simulators_model(
    name: str, dtype: Any, tolerance: float, tmp_path: Any
) -> None:
    method, problem = METHODS[name], make_small_problem(dtype=dtype)
    fleet, rounds, seed = make_small_fleet(problem), 12, 5
    wanted = scfl.simulate(problem, fleet, method, rounds=rounds, random_state=seed)

    work = fleet.work(problem.shape, wanted.plan.loads)
    delays = fleet.law.sample(work, 256, stream(seed, Purpose.DELAYS, 0))
    terms = Terms(
        method=method,
        clients=4,
        rounds=rounds,
        seed=seed,
        dtype=dtype,
        fleet=fleet,
        learn_arrivals=False,
        patience_s=1e6,
    )
    script = start(problem, terms, tmp_path, seed=seed, delay=lambda r, c: float(delays[r, c]))
    script.join("2", "0", "3", "1")
    script.run()

    session = script.session
    assert session.training is not None
    state = session.training.state
    assert state.round == wanted.rounds
    for got, expected in ((state.model, wanted.model_last), (state.average, wanted.model_average)):
        assert np.abs(got - expected).max() <= tolerance * np.abs(expected).max()
    ledger = session.book.finish(4)
    assert np.array_equal(ledger.status == 0, wanted.ledger.status == 0)
    # Somebody was late, or the script would have proved little.
    if name in {"scfl", "scfl-stacked", "fl-pma", "fl-ipw"}:
        assert (wanted.ledger.status == 1).any()


LAWS: dict[str, Availability] = {
    "independent": scfl.Independent(0.7),
    "outages": scfl.Outages(mean_up_s=3.0, mean_down_s=1.5),
    "departures": scfl.Departures(share=0.5, at_s=4.0),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", ["scfl", "fl-ipw", "resilient", "stand-in", "doubly-robust"])
def test_absences_by_a_law_give_the_simulators_model_too(
    name: str, law: str, tmp_path: Path
) -> None:
    """Any law that the simulator knows is played on the network from its ledger."""
    problem = make_small_problem()
    fleet = replace(make_small_fleet(problem), availability=LAWS[law])
    wanted = scfl.simulate(problem, fleet, METHODS[name], rounds=30, random_state=5)
    assert (wanted.ledger.status == ABSENT).any()
    terms = Terms(
        method=METHODS[name],
        clients=4,
        rounds=30,
        seed=5,
        dtype="float64",
        fleet=fleet,
        learn_arrivals=False,
    )
    script = start(problem, terms, tmp_path, seed=5, delay=replay(wanted))
    script.join("0", "1", "2", "3")
    script.run()
    training = script.session.training
    assert training is not None
    largest = np.abs(wanted.model_last).max()
    assert np.abs(training.state.model - wanted.model_last).max() <= 1e-10 * largest
    status = script.session.book.finish(4).status
    assert np.array_equal(status == ARRIVED, wanted.ledger.status == ARRIVED)
