"""A third party's method, written from the documentation alone, plugs in without touching scfl."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import scfl
from scfl.errors import ParameterError
from scfl.methods.protocol import Arrivals, Combination, Deadline, Plan, State
from scfl.methods.schedule import descend
from scfl.study.config import check_tables
from scfl.study.run import check_study, run_study
from scfl.testing import check_method


@dataclass(frozen=True)
class Patient:
    """Wait for twice the mean delay, weight who is here by 1/p, and damp the first steps."""

    learning_rate: float = 0.5
    warm_up: int = 10
    name: ClassVar[str] = "patient"

    def plan(self, shape: scfl.Shape, fleet: scfl.Fleet) -> Plan:
        loads = scfl.Batches(2).loads(shape, fleet)
        work = fleet.work(shape, loads)
        seconds = 2 * float(fleet.law.mean(work).max())
        return Plan(
            shape=shape,
            loads=loads,
            wait=Deadline(seconds),
            sampling=scfl.Batches(2).sampling,
            arrival_probability=fleet.law.cdf(work, seconds),
            learned="last",
        )

    def combine(self, plan: Plan, arrivals: Arrivals, state: State) -> Combination:
        return Combination(clients=1 / plan.arrival_probability)

    def step(self, plan: Plan, state: State, direction: Any, held: Any) -> State:
        damping = min(1.0, (state.round + 1) / self.warm_up)
        return descend(state, direction, damping * self.learning_rate, rows=plan.shape.rows)


@dataclass(frozen=True)
class Forgetful(Patient):
    def combine(self, plan: Plan, arrivals: Arrivals, state: State) -> Combination:
        return Combination(clients=np.full(plan.shape.clients, 0.9))


def test_a_method_of_thirty_lines_conforms() -> None:
    check_method(Patient(), unbiased=True)


def test_a_registered_method_runs_from_a_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "scfl.methods.registry._METHODS", {**scfl.known_methods(), "patient": Patient}
    )
    tables = {
        "seeds": 1,
        "problem": {"dataset": "regression", "rows": 60, "columns": 3},
        "partition": {"clients": 4},
        "clock": {"rounds": 8},
        "methods": {"patient": {"warm-up": 4}},
    }
    ready = check_study(check_tables(tables, name="toy"))
    (summary,) = run_study(ready, tmp_path / "out")
    assert summary["method"] == "patient"
    assert summary["parameters"] == {"learning_rate": 0.5, "warm_up": 4}
    assert summary["rounds"] == 8


def test_registering_a_taken_name_is_refused() -> None:
    impostor = dataclass(frozen=True)(type("Impostor", (Patient,), {"name": "scfl"}))
    with pytest.raises(ParameterError, match="'scfl' is taken by SCFL"):
        scfl.register(impostor)


def test_a_method_that_forgets_the_weights_is_caught() -> None:
    with pytest.raises(AssertionError, match="standard errors off"):
        check_method(Forgetful(), unbiased=True)
