"""What leaves a client, as immutable events. An accountant reads these and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Sketch:
    """Random combinations of a client's rows, sent once: so many coded rows in each code.

    Every row of the client is in one of ``codes`` codes, each of other rows, and enters it with a
    weight of at most ``row_weight``. ``layout`` says who can see them: ``"summed"`` codes are added
    up before anybody looks only if the sum is computed securely; ``"stacked"`` ones reach the
    server as they are.
    """

    rows: int
    sigma: float
    labels_noised: bool
    layout: Literal["summed", "stacked"]
    codes: int = 1
    row_weight: float = 1.0
    kind: Literal["sketch"] = "sketch"


@dataclass(frozen=True)
class Gradients:
    """One gradient on some rows in each of so many rounds, with noise ``sigma`` on each entry.

    ``norm`` bounds each row's share in a gradient. A row takes part in at most ``turns`` rounds:
    for certain where ``rate`` is 1, else with that probability, by a coin that nobody else sees.
    """

    rounds: int
    rows_per_round: int
    sigma: float = 0.0
    norm: float | None = None
    turns: int | None = None
    rate: float = 1.0
    kind: Literal["gradients"] = "gradients"


@dataclass(frozen=True)
class Products:
    """The exact sums of products of all columns, features and targets, sent once."""

    columns: int
    kind: Literal["products"] = "products"


Release = Sketch | Gradients | Products
