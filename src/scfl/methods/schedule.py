"""How far a step goes, and the plain step that most methods take.

Learning rates are stated per training row: a rate of 2 on m rows moves the model by 2/m times the
direction, so that the same number serves problems of every size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from scfl.core.parameter import Requirements
from scfl.methods.protocol import State


@dataclass(frozen=True)
class StepDecay:
    """A rate that is multiplied by ``factor`` at each of the given rounds."""

    start: float
    factor: float = 0.8
    at_rounds: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "at_rounds", tuple(self.at_rounds))
        with Requirements() as require:
            require.number("start", self.start, above=0)
            require.number("factor", self.factor, above=0, at_most=1)
            for number in self.at_rounds:
                require.count("at_rounds", number, at_least=1)


@dataclass(frozen=True)
class TheoremOne:
    """The step of the paper's Theorem 1: eta_r = 1 / (zeta + 1/gamma), gamma^2 = 4 phi^2 / (rho r).

    ``smoothness`` is zeta (a bound on ||X||_F^2), ``radius`` is phi (on ||W||_F) and ``variance``
    is rho (on the direction's variance, Lemma 3). The step is absolute, not per row.
    """

    smoothness: float
    radius: float
    variance: float

    def __post_init__(self) -> None:
        with Requirements() as require:
            require.number("smoothness", self.smoothness, above=0)
            require.number("radius", self.radius, above=0)
            require.number("variance", self.variance, at_least=0)


LearningRate = float | StepDecay | TheoremOne


def step_size(rate: LearningRate, round_number: int, rows: int) -> float:
    """The factor on the direction in round ``round_number``, counted from 0."""
    if isinstance(rate, TheoremOne):
        slowness = math.sqrt(rate.variance * (round_number + 1)) / (2 * rate.radius)
        return 1 / (rate.smoothness + slowness)
    if isinstance(rate, StepDecay):
        passed = sum(round_number >= at for at in rate.at_rounds)
        return rate.start * rate.factor**passed / rows
    return rate / rows


def descend(state: State, direction: NDArray[Any], rate: LearningRate, *, rows: int) -> State:
    """Step against the direction and keep the running average of the models."""
    model = state.model - step_size(rate, state.round, rows) * direction
    count = state.round + 1
    average = state.average + (model - state.average) / count
    return replace(state, model=model, average=average, round=count)


def average_later(state: State, model: NDArray[Any]) -> State:
    """Move to ``model`` and average the models with weights 1, 2, 3, ...: later ones know more."""
    count = state.round + 1
    average = state.average + (model - state.average) * model.dtype.type(2 / (count + 1))
    return replace(state, model=model, average=average, round=count)
