"""How many rows each client processes in a round, and which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from scfl.core.allocation import allocate
from scfl.core.fleet import Fleet, Shape
from scfl.core.parameter import Requirements
from scfl.core.sampling import Bernoulli, Sampling, Subsets, largest_loads
from scfl.errors import InfeasibleError, Problem

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Batches:
    """Each client's rows are cut into ``subsets`` and a round takes one, or ``rows`` rows of it.

    With ``redundancy`` each client takes what CodedFedL's load allocation gives it at that
    redundancy instead: slow clients take fewer rows. Methods with equal batches compare fairly.
    ``rule="bernoulli"`` draws each row independently, as many on average.
    """

    subsets: int = 10
    rows: int | None = None
    redundancy: float | None = None
    rule: Literal["subsets", "bernoulli"] = "subsets"

    def __post_init__(self) -> None:
        with Requirements() as require:
            require.count("subsets", self.subsets, at_least=1)
            require.choice("rule", self.rule, ("subsets", "bernoulli"))
            if self.rows is not None:
                require.count("rows", self.rows, at_least=1)
            if self.redundancy is not None:
                require.number("redundancy", self.redundancy, at_least=0, below=1)

    @property
    def sampling(self) -> Sampling:
        return Subsets(self.subsets) if self.rule == "subsets" else Bernoulli()

    def largest(self, shape: Shape) -> Ints:
        """The rows of each client that one round can take."""
        most = largest_loads(Subsets(self.subsets), shape.client_rows)
        if self.rows is None:
            return most
        if self.rows > most.max():
            sentence = (
                f"{self.rows} rows a round, but with {self.subsets} subsets no client has more "
                f"than {most.max()} to take; give at most {most.max()}, or fewer subsets"
            )
            raise InfeasibleError([Problem("batches.rows", sentence)])
        return np.minimum(most, self.rows)

    def loads(self, shape: Shape, fleet: Fleet) -> Ints:
        """The rows that each client processes in a round."""
        largest = self.largest(shape)
        if self.redundancy is None:
            return largest
        return allocate(shape, fleet, redundancy=self.redundancy, caps=largest).loads
