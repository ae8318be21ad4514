"""How much may be told: the budget that the noise of every coding method is calibrated for."""

from __future__ import annotations

from dataclasses import dataclass

from scfl.core.parameter import Requirements
from scfl.errors import InfeasibleError
from scfl.privacy.sketch import find_noise


@dataclass(frozen=True)
class GradientNoise:
    """What clients do to their gradients: each row's is cut to ``norm``, the sum gets noise.

    ``multiplier`` is the noise on each entry over the norm.
    """

    norm: float
    multiplier: float

    def __post_init__(self) -> None:
        with Requirements() as require:
            require.number("norm", self.norm, above=0)
            require.number("multiplier", self.multiplier, above=0)

    @property
    def sigma(self) -> float:
        """The noise on each entry of a client's sum over rows."""
        return self.norm * self.multiplier


@dataclass(frozen=True)
class Budget:
    """A privacy budget, and the ``[privacy]`` table of a configuration.

    ``mi_bits`` asks for the paper's printed number (Theorem 2, scaled features, the largest
    client's); ``epsilon`` for a guarantee (epsilon, delta) of every single row [x, y], with noise
    on features and labels. For that, rows of a norm above ``row_norm`` are scaled down to it.
    ``delta`` and ``row_norm`` without ``epsilon`` tell what epsilon the noise at hand keeps.
    These budgets are for the coded data. ``gradient_norm`` and ``gradient_noise`` protect the
    gradients too: each row's is cut to that norm, and noise of so many norms is added.
    """

    mi_bits: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    row_norm: float | None = None
    gradient_norm: float | None = None
    gradient_noise: float | None = None

    def __post_init__(self) -> None:
        with Requirements() as require:
            for name in ("mi_bits", "epsilon", "row_norm", "gradient_norm", "gradient_noise"):
                if getattr(self, name) is not None:
                    require.number(name, getattr(self, name), above=0)
            if self.delta is not None:
                require.number("delta", self.delta, above=0, below=1)
            require.that(
                self.mi_bits is None or self.epsilon is None,
                "mi_bits",
                "asks for one noise and epsilon for another; leave one of them out (the run's "
                "record tells both numbers)",
            )
            rows = self.epsilon is not None or self.delta is not None
            require.that(
                self.row_norm is not None or not rows,
                "row_norm",
                "is missing; (epsilon, delta) needs a bound on the norm of every row [x, y], which "
                "is never guessed from the data: give one, and rows above it are scaled down",
            )
            rows = self.epsilon is not None or self.row_norm is not None
            require.that(
                self.delta is not None or not rows,
                "delta",
                "is missing; give the probability with which epsilon may fail, well below one "
                "over the number of rows, such as 1e-5",
            )
            for one, other in (
                ("gradient_norm", "gradient_noise"),
                ("gradient_noise", "gradient_norm"),
            ):
                require.that(
                    getattr(self, one) is not None or getattr(self, other) is None,
                    one,
                    "is missing; gradients are protected by cutting each row's gradient to "
                    "gradient-norm and adding noise of gradient-noise norms: give both",
                )
            if not require.problems and self.epsilon is not None:
                self._check_reach(require)

    def _check_reach(self, require: Requirements) -> None:
        """A budget that a single coded row exceeds under any noise is told without any data."""
        assert self.epsilon is not None
        assert self.delta is not None
        assert self.row_norm is not None
        try:
            find_noise(self.epsilon, self.delta, rows=1, row_norm=self.row_norm)
        except InfeasibleError as error:
            require.problems += error.problems

    @property
    def protects_gradients(self) -> GradientNoise | None:
        """What clients do to their gradients before they send them."""
        if self.gradient_norm is None or self.gradient_noise is None:
            return None
        return GradientNoise(self.gradient_norm, self.gradient_noise)

    @property
    def calibrates(self) -> bool:
        """Whether noise follows from this budget, so that no method may bring its own."""
        return self.mi_bits is not None or self.epsilon is not None
