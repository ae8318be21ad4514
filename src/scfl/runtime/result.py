"""What a run leaves behind: the models, the curve, and who took part in what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scfl.core.coding import CodedData
from scfl.data.problem import Problem
from scfl.errors import RunError
from scfl.methods.protocol import Method, Plan
from scfl.privacy.budget import GradientNoise
from scfl.runtime.stability import Stability

Floats = NDArray[np.float64]
Matrix = NDArray[Any]

STATUSES = ("arrived", "late", "absent", "not-asked")
ARRIVED, LATE, ABSENT, NOT_ASKED = range(4)


@dataclass(frozen=True, eq=False)
class Setup:
    """What the coded data costs each client before the first round, on its own clock and link.

    ``server_s`` is what the server then computes with it, once.
    """

    encoding_s: Floats
    upload_s: Floats
    upload_bytes: Floats
    server_s: float = 0.0

    @property
    def seconds(self) -> float:
        """Clients work side by side; training starts when the server is through with them all."""
        return float((self.encoding_s + self.upload_s).max()) + self.server_s


@dataclass(frozen=True, eq=False)
class Trace:
    """The curve: one entry per evaluation, the untrained model first.

    ``training_time_s`` leaves the setup out. Losses are per training row, ||XW - Y||^2 / (2 m);
    accuracies are on the test rows, or on the training rows where there are none, and NaN for
    regression. ``loss`` and ``accuracy`` are the learned model's: the last or the average iterate.
    """

    round: NDArray[np.int32]
    training_time_s: Floats
    loss: Floats
    accuracy: Floats
    loss_last: Floats
    accuracy_last: Floats
    loss_average: Floats
    accuracy_average: Floats
    bytes_up: Floats
    bytes_down: Floats


@dataclass(frozen=True, eq=False)
class Ledger:
    """Who took part: every array is rounds by clients, and ``closed_s`` one entry per round.

    ``weight`` is the factor put on a client's gradient, ``weight_lost`` the factor that it would
    have had if it had arrived. An answer that came too late was sent all the same: its bytes count.
    """

    status: NDArray[np.int8]
    delay_s: NDArray[np.float32]
    weight: NDArray[np.float32]
    closed_s: Floats
    message_bytes: float

    @property
    def weight_given(self) -> NDArray[np.float32]:
        return np.where(self.status == ARRIVED, self.weight, 0)

    @property
    def weight_lost(self) -> NDArray[np.float32]:
        missed = (self.status == LATE) | (self.status == ABSENT)
        return np.where(missed, self.weight, 0)

    @property
    def bytes_up(self) -> Floats:
        sent = (self.status == ARRIVED) | (self.status == LATE)
        return np.where(sent, self.message_bytes, 0.0)

    @property
    def bytes_down(self) -> Floats:
        return np.where(self.status != NOT_ASKED, self.message_bytes, 0.0)

    def arrival_rate(self) -> Floats:
        """The part of its rounds in which each client was in time; NaN if it was never asked."""
        asked = (self.status != NOT_ASKED).sum(axis=0)
        with np.errstate(invalid="ignore"):
            rate: Floats = (self.status == ARRIVED).sum(axis=0) / asked
        return rate


@dataclass(frozen=True, eq=False)
class Result:
    """One run of one method. ``diverged`` is None, or one sentence with the likely cause.

    ``stability`` is what could be told before the first round; None without a make-up term.
    """

    problem: Problem
    method: Method
    plan: Plan
    seed: int
    trace: Trace
    ledger: Ledger
    setup: Setup
    setup_counted: bool
    model_last: Matrix
    model_average: Matrix
    held: CodedData | None
    stability: Stability | None = None
    gradient_noise: GradientNoise | None = None
    diverged: str | None = None

    @property
    def model(self) -> Matrix:
        """The learned model, the one that :meth:`predict` uses."""
        return self.model_average if self.plan.learned == "average" else self.model_last

    @property
    def rounds(self) -> int:
        return len(self.ledger.closed_s)

    @property
    def training_time_s(self) -> float:
        return float(self.ledger.closed_s[-1]) if self.rounds else 0.0

    @property
    def virtual_time_s(self) -> float:
        """Seconds on the virtual clock, with the setup where it is counted."""
        return self.training_time_s + (self.setup.seconds if self.setup_counted else 0.0)

    @property
    def loss(self) -> float:
        return float(self.trace.loss[-1])

    @property
    def accuracy(self) -> float:
        return float(self.trace.accuracy[-1])

    def predict(self, X: ArrayLike) -> Matrix:
        """Predict raw rows with the learned model; feature maps are applied first."""
        if self.diverged is not None:
            raise RunError(f"there is no model to predict with: {self.diverged}")
        return self.problem.predict(self.model, X)

    def __repr__(self) -> str:
        accuracy = "" if np.isnan(self.accuracy) else f", accuracy {self.accuracy:.4f}"
        state = f"diverged: {self.diverged}" if self.diverged else f"loss {self.loss:.4g}{accuracy}"
        return (
            f"<Result {self.method.name}: {self.rounds} rounds, "
            f"{self.virtual_time_s:.1f} virtual seconds, {state}>"
        )
