"""A small training that tests play, and change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import scfl
from scfl.methods.batches import Batches
from scfl.runtime.network.session import Session
from scfl.runtime.network.terms import Terms
from tests.runtime.network.scripted import (
    Script,
    make_small_fleet,
    make_small_problem,
    start,
)

PROBLEM = make_small_problem()


TERMS = Terms(
    method=scfl.SCFL(batches=Batches(subsets=3), coded_rows=40, deadline_s=20.0),
    clients=4,
    rounds=20,
    seed=5,
    dtype="float64",
    fleet=make_small_fleet(PROBLEM),
    checkpoint_every=4,
)


ALL = ("0", "1", "2", "3")


def model_of(session: Session) -> Any:
    assert session.training is not None
    return session.training.state.model


def rounds_of(session: Session) -> int:
    return 0 if session.training is None else session.training.state.round


def play(folder: Path, terms: Terms = TERMS, **script: Any) -> Script:
    made = start(PROBLEM, terms, folder, seed=5, **script)
    made.join(*ALL)
    made.run()
    return made
