"""What a method is: a policy on the server that makes three decisions, each a pure function.

    plan(shape, fleet)                 -> Plan          before anything runs
    combine(plan, arrivals, state)     -> Combination   once a round has closed
    step(plan, state, direction, held) -> State         the update of the model

Between the decisions a driver (the simulator, a network) does the same for every method:

    direction = sum_i a_i g_i(W)  +  sum_j b_j h_j(W)  -  s W
                arrived clients      coded blocks        shrinkage

where g_i estimates client i's own gradient X_i^T (X_i W - Y_i) from the rows that it processed,
h_j estimates block j's normalised gradient (1/c_j) X~_j^T (X~_j W - Y~_j) from the coded rows that
the server processed, and a, b, s are what ``combine`` returned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from scfl.core.coding import CodedData, Noise
from scfl.core.fleet import Fleet, Shape
from scfl.core.sampling import Sampling, Subsets

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Layout = Literal["summed", "stacked"]
RowsBy = Literal["equal", "size"] | tuple[float, ...]


@dataclass(frozen=True)
class Deadline:
    """The round closes after so many seconds, whoever is here."""

    seconds: float


@dataclass(frozen=True)
class Fastest:
    """The round closes with the arrival of the ``count``-th fastest client."""

    count: int


@dataclass(frozen=True)
class All:
    """The round closes when everybody who was asked is here."""


@dataclass(frozen=True)
class ServerOnly:
    """No client is asked; the round lasts as long as the server computes."""


Wait = Deadline | Fastest | All | ServerOnly


@dataclass(frozen=True, eq=False)
class Code:
    """The coded data that a method asks for, once, before the first round.

    ``rows`` is what each client sends (per subset when ``per_subset``); a summed layout needs the
    same number from all. ``processed_weight`` is the encoding weight of the rows that a client
    processes itself each round (its first ``load`` rows); every other row has weight 1.
    ``server_rows`` is how many coded rows the server processes in a round, over all blocks.
    With ``content="products"`` clients send X^T X, X^T Y and Y^T Y instead, and the d + o ``rows``
    are a factor of their sum: coded data without an error, and without a secret.
    """

    rows: Ints
    server_rows: int
    noise: Noise = Noise()
    layout: Layout = "summed"
    per_subset: bool = False
    processed_weight: Floats | None = None
    content: Literal["sketch", "products"] = "sketch"

    @property
    def blocks(self) -> int:
        """Blocks that the server tells apart in a round: one, or one per client."""
        return 1 if self.layout == "summed" else len(self.rows)


@dataclass(frozen=True, eq=False)
class Plan:
    """What a method will do on this fleet. A client whose load is 0 is never asked.

    ``server_setup_macs`` is what the server computes once, when the coded data is there, and
    ``step_macs`` what each step costs it when a round has closed, beside the gradient of the coded
    rows; a method that is done after so many ``rounds`` says so. ``individual`` asks the driver to
    show ``combine`` each client's gradient by itself, which rules secure aggregation out.
    """

    shape: Shape
    loads: Ints
    wait: Wait
    sampling: Sampling = Subsets(1)
    arrival_probability: Floats | None = None
    code: Code | None = None
    server_setup_macs: float = 0.0
    step_macs: float = 0.0
    rounds: int | None = None
    individual: bool = False
    learned: Literal["average", "last"] = "average"

    @property
    def inverse_probability(self) -> Floats:
        """The weight 1/p that makes a client's arrivals unbiased; 0 for who is never asked."""
        assert self.arrival_probability is not None
        asked = self.loads > 0
        return np.where(asked, 1 / np.where(asked, self.arrival_probability, 1.0), 0.0)


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Who was here when the round closed, among those who were asked.

    ``silent`` counts for each client the rounds in a row, this one included, that it was asked in
    and did not answer in time. Without it, this round counts alone. ``gradients`` is clients by d
    by o, zeros for the absent, where the plan asks for ``individual`` gradients.
    """

    round: int
    arrived: NDArray[np.bool_]
    silent: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    gradients: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        if len(self.silent) != len(self.arrived):
            object.__setattr__(self, "silent", (~self.arrived).astype(np.int64))

    def following(self, arrived: NDArray[np.bool_], asked: NDArray[np.bool_]) -> Arrivals:
        """The arrivals of the next round."""
        return Arrivals(self.round + 1, arrived, np.where(arrived, 0, self.silent + asked))


@dataclass(frozen=True, eq=False)
class Combination:
    """The weights of a round. ``clients`` has one for everybody; the driver drops the absent.

    A method that learns from who arrived says what the state is to remember before the step, and
    one whose step costs more in some rounds than in others how many ``macs`` this one takes.
    """

    clients: Floats
    coded: Floats = field(default_factory=lambda: np.zeros(0))
    shrink: float = 0.0
    memory: Any = None
    macs: float = 0.0


@dataclass(frozen=True, eq=False)
class State:
    """Where training stands: the last model, the average of the models, and what a method keeps.

    ``memory`` is None, a number, an array, or a dict of these, so that a checkpoint can hold it.
    """

    model: NDArray[Any]
    average: NDArray[Any]
    round: int = 0
    memory: Any = None


@runtime_checkable
class Method(Protocol):
    """A frozen dataclass whose fields are its parameters and whose methods are its decisions."""

    name: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def plan(self, shape: Shape, fleet: Fleet) -> Plan: ...

    def combine(self, plan: Plan, arrivals: Arrivals, state: State) -> Combination: ...

    def step(
        self, plan: Plan, state: State, direction: NDArray[Any], held: CodedData | None
    ) -> State: ...
