"""How much may be told: the budget that the noise of every coding method is calibrated for."""

from __future__ import annotations

from dataclasses import dataclass

from scfl.core.parameter import Requirements


@dataclass(frozen=True)
class Budget:
    """A privacy budget, and the ``[privacy]`` table of a configuration.

    ``mi_bits`` is the paper's printed number (Theorem 2, scaled features, the largest client's).
    Without it, every method keeps the noise that it was given.
    """

    mi_bits: float | None = None

    def __post_init__(self) -> None:
        with Requirements() as require:
            if self.mi_bits is not None:
                require.number("mi_bits", self.mi_bits, above=0)

    @property
    def calibrates(self) -> bool:
        """Whether noise follows from this budget, so that no method may bring its own."""
        return self.mi_bits is not None
