"""How likely each client is in time: what the model says at first, what happens ever after.

A client's probability starts at its plan's value, which counts as a few rounds seen, and moves with
each round in which it was asked and could be heard. Old rounds fade, so that a client whose link
changes is followed:

    hits <- k hits + 1{in time},   rounds <- k rounds + 1,   p = (s p_0 + hits) / (s + rounds)

The estimate that a round is weighted with never contains that round itself, so that the weight 1/p
stays independent of who arrives. It is floored: the first answer of somebody who was long late must
not count a thousandfold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_PRIOR_ROUNDS = 10.0
_KEPT = 0.998
_LEAST = 0.05
# What one answer that was no use leaves of a client's weight, and what each good one gives back.
_DISTRUST = 0.5
_FORGIVENESS = 1.1


@dataclass(frozen=True, eq=False)
class Estimate:
    """One entry per client. ``trust`` falls with answers that were no use, and recovers."""

    prior: Floats
    hits: Floats
    rounds: Floats
    trust: Floats

    @property
    def probability(self) -> Floats:
        """The probability of being in time; 0 for who is never asked."""
        seen = (_PRIOR_ROUNDS * self.prior + self.hits) / (_PRIOR_ROUNDS + self.rounds)
        return np.where(self.prior > 0, np.maximum(seen, _LEAST), 0.0)

    def watch(self, asked: Mask, arrived: Mask, refused: Mask) -> Estimate:
        """Learn from a round; an answer that was refused came all the same."""
        came = arrived | refused
        return replace(
            self,
            hits=np.where(asked, _KEPT * self.hits + came, self.hits),
            rounds=np.where(asked, _KEPT * self.rounds + 1, self.rounds),
            trust=np.where(arrived, np.minimum(self.trust * _FORGIVENESS, 1.0), self.trust),
        )

    def distrust(self, client: int) -> Estimate:
        """Hold an answer that was no use against its sender."""
        trust = self.trust.copy()
        trust[client] *= _DISTRUST
        return replace(self, trust=trust)

    def grow(self, prior: float) -> Estimate:
        """The same with one client more."""
        return Estimate(
            np.append(self.prior, prior),
            np.append(self.hits, 0.0),
            np.append(self.rounds, 0.0),
            np.append(self.trust, 1.0),
        )


def start_estimate(prior: Floats) -> Estimate:
    """Nothing seen yet."""
    nothing = np.zeros_like(prior)
    return Estimate(prior, nothing, nothing, np.ones_like(prior))
