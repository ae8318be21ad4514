"""How long a client's answer takes: two laws, each with draws, exact probabilities and a mean.

=============  ==========================================================
here           paper and cited works
=============  ==========================================================
``compute_s``  b N_MAC / MACR_i, written c below
``upload_s``   tau_i, one attempt to send the gradient
``download_s`` t_d, the reliable broadcast of the model
``erasure``    p, the probability that one attempt is lost
``variation``  alpha, the ratio of fixed to mean random compute time
=============  ==========================================================

Wireless edge (this paper):           t = c + K tau + t_d,       K ~ Geometric(1 - p) on 1, 2, ...
Shifted exponential (CFL, CodedFedL): t = c + Exp(alpha / c) + (K_down + K_up) tau,
where both links are the client's own, with the same attempt time and the same erasure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scfl.core.parameter import Requirements

Floats = NDArray[np.float64]

# Attempts so unlikely that leaving them out changes no probability that a double can hold.
_NEGLIGIBLE = 1e-18


@dataclass(frozen=True, eq=False)
class Work:
    """The seconds that each part of a round takes each client when nothing goes wrong."""

    compute_s: Floats
    upload_s: Floats
    download_s: float


class DelayLaw(Protocol):
    """What the simulator, the planner and the methods need to know about delays."""

    @property
    def transmissions_per_packet(self) -> float:
        """Expected attempts until one small packet of the uplink arrives."""

    def sample(self, work: Work, rounds: int, rng: np.random.Generator) -> Floats:
        """Draw the seconds until each client's answer is here, as ``rounds`` by clients."""

    def cdf(self, work: Work, seconds: ArrayLike) -> Floats:
        """The probability that each client's answer is here within ``seconds``."""

    def mean(self, work: Work) -> Floats:
        """The expected seconds until each client's answer is here."""

    def earliest(self, work: Work) -> Floats:
        """The seconds below which a client's answer cannot be here; at them it may not be yet."""


@dataclass(frozen=True)
class WirelessEdge:
    """The paper's law: steady computation, a lossy uplink, a reliable broadcast."""

    erasure: float = 0.1

    def __post_init__(self) -> None:
        with Requirements() as require:
            require.number("erasure", self.erasure, at_least=0, below=1)

    @property
    def transmissions_per_packet(self) -> float:
        return 1 / (1 - self.erasure)

    def sample(self, work: Work, rounds: int, rng: np.random.Generator) -> Floats:
        attempts = _geometric(self.erasure, (rounds, len(work.upload_s)), rng)
        return work.compute_s + work.download_s + attempts * work.upload_s

    def cdf(self, work: Work, seconds: ArrayLike) -> Floats:
        return self.success(self.count_attempts(work, seconds))

    def count_attempts(self, work: Work, seconds: ArrayLike) -> Floats:
        """Count the uploads that fit in, with the very sum that a drawn delay is.

        So a deadline that was read off a delay admits it, and one double less does not. The count
        stops where more attempts no longer change a probability that a double can hold.
        """
        start, limit = work.compute_s + work.download_s, np.asarray(seconds, dtype=np.float64)
        attempts = np.clip(np.floor((limit - start) / work.upload_s), 0, self.enough_attempts)
        # The quotient is rounded and can be one off either way; the sum decides.
        one_more = start + (attempts + 1) * work.upload_s <= limit
        attempts += one_more & (attempts < self.enough_attempts)
        attempts -= (start + attempts * work.upload_s > limit) & (attempts > 0)
        return attempts

    def success(self, attempts: Floats) -> Floats:
        """The probability that one of so many attempts arrives."""
        return np.where(attempts >= 1, 1 - self.erasure ** np.maximum(attempts, 1), 0.0)

    @property
    def enough_attempts(self) -> float:
        """The attempts after which 1 - p^k is 1 in double precision."""
        if self.erasure == 0:
            return 1.0
        return math.ceil(55 * math.log(2) / -math.log(self.erasure))

    def mean(self, work: Work) -> Floats:
        return work.compute_s + work.download_s + work.upload_s / (1 - self.erasure)

    def earliest(self, work: Work) -> Floats:
        return work.compute_s + work.download_s + work.upload_s


@dataclass(frozen=True)
class ShiftedExponential:
    """The law of CFL and CodedFedL: computation varies too, and both links lose packets."""

    erasure: float = 0.1
    variation: float = 2.0

    def __post_init__(self) -> None:
        with Requirements() as require:
            require.number("erasure", self.erasure, at_least=0, below=1)
            require.number("variation", self.variation, above=0)

    @property
    def transmissions_per_packet(self) -> float:
        return 1 / (1 - self.erasure)

    def sample(self, work: Work, rounds: int, rng: np.random.Generator) -> Floats:
        size = (rounds, len(work.upload_s))
        attempts = _geometric(self.erasure, size, rng) + _geometric(self.erasure, size, rng)
        jitter = rng.standard_exponential(size) * (work.compute_s / self.variation)
        return work.compute_s + jitter + attempts * work.upload_s

    def cdf(self, work: Work, seconds: ArrayLike) -> Floats:
        limit = np.asarray(seconds, dtype=np.float64)
        total = np.zeros(np.broadcast_shapes(limit.shape, work.upload_s.shape))
        with np.errstate(divide="ignore"):
            rate = np.where(work.compute_s > 0, self.variation / work.compute_s, np.inf)
        for attempts, probability in self.attempt_probabilities():
            begun = work.compute_s + attempts * work.upload_s
            left = limit - begun
            with np.errstate(invalid="ignore"):
                done = np.where(np.isinf(rate), 1.0, -np.expm1(-rate * np.maximum(left, 0)))
            total += np.where(begun <= limit, probability * done, 0.0)
        # A sum of probabilities can round to more than 1, and 1 - P is to be rooted by some.
        return np.minimum(total, 1.0)

    def attempt_probabilities(self) -> list[tuple[int, float]]:
        """P(K_down + K_up = v) for v = 2, 3, ..., until the rest is too small to matter."""
        success = 1 - self.erasure
        likeliest = 1 + 1 / success
        out = [(2, success**2)]
        while self.erasure > 0 and (out[-1][0] < likeliest or out[-1][1] > _NEGLIGIBLE):
            v = out[-1][0] + 1
            out.append((v, (v - 1) * success**2 * self.erasure ** (v - 2)))
        return out

    def mean(self, work: Work) -> Floats:
        return work.compute_s * (1 + 1 / self.variation) + 2 * work.upload_s / (1 - self.erasure)

    def earliest(self, work: Work) -> Floats:
        return work.compute_s + 2 * work.upload_s


def _geometric(
    erasure: float, size: tuple[int, int], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Attempts up to and including the first that arrives."""
    if erasure == 0:
        return np.ones(size, dtype=np.int64)
    return rng.geometric(1 - erasure, size)
