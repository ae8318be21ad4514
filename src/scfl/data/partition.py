"""Who holds which rows: rules that deal rows out to clients.

Names and arguments are those of flwr-datasets, whose partitioners these stand for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from scfl.core.parameter import Requirements
from scfl.core.randomness import Purpose, stream
from scfl.errors import DataError

Ints = NDArray[np.int64]

# So many draws without enough rows for everybody say that none is to be had.
_DRAWS = 1000


@dataclass(frozen=True)
class LabelSorted:
    """The paper's non-IID split: sort by label, cut into equal shards, one shard per client."""

    clients: int = 20
    name: ClassVar[str] = "label-sorted"

    def __post_init__(self) -> None:
        with Requirements() as require:
            require.count("clients", self.clients, at_least=1)


@dataclass(frozen=True)
class Iid:
    """Shuffle, then cut into equal shards."""

    clients: int = 20
    name: ClassVar[str] = "iid"

    def __post_init__(self) -> None:
        with Requirements() as require:
            require.count("clients", self.clients, at_least=1)


@dataclass(frozen=True)
class Dirichlet:
    """Each class is shared out among the clients in proportions drawn from Dirichlet(alpha).

    A small alpha gives each client few classes, a large one a little of each; sizes differ too.
    Drawn again until every client has ``min_partition_size`` rows. With ``self_balancing`` a
    client that has its even share takes no further class.
    """

    clients: int = 20
    alpha: float = 0.5
    min_partition_size: int = 10
    self_balancing: bool = False
    name: ClassVar[str] = "dirichlet"

    def __post_init__(self) -> None:
        with Requirements() as require:
            require.count("clients", self.clients, at_least=1)
            require.number("alpha", self.alpha, above=0)
            require.count("min_partition_size", self.min_partition_size, at_least=1)
            is_switch = isinstance(self.self_balancing, bool)
            require.that(is_switch, "self_balancing", "give true or false")


@dataclass(frozen=True)
class SizeSkewed:
    """Shuffle, then cut into shards whose sizes grow from client to client: k, k^2 or e^k."""

    clients: int = 20
    growth: Literal["linear", "square", "exponential"] = "linear"
    name: ClassVar[str] = "size-skewed"

    def __post_init__(self) -> None:
        with Requirements() as require:
            require.count("clients", self.clients, at_least=1)
            require.choice("growth", self.growth, ("linear", "square", "exponential"))


Partition = LabelSorted | Iid | Dirichlet | SizeSkewed


def assign_clients(partition: Partition, labels: NDArray[Any], random_state: int) -> Ints:
    """The client of each row; ``labels`` may be class labels or numbers to sort by."""
    if partition.clients > len(labels):
        raise DataError(
            f"{partition.clients} clients for {len(labels)} training rows; "
            f"every client needs a row, so give at most {len(labels)} clients"
        )
    rng = stream(random_state, Purpose.PARTITION, 0)
    if isinstance(partition, Dirichlet):
        return _draw_shares(partition, labels, rng)
    order = rng.permutation(len(labels))
    if isinstance(partition, LabelSorted):
        order = order[np.argsort(labels[order], kind="stable")]
    client = np.empty(len(labels), dtype=np.int64)
    if isinstance(partition, SizeSkewed):
        client[order] = np.repeat(np.arange(partition.clients), _grow(partition, len(labels)))
    else:
        client[order] = np.arange(len(labels)) * partition.clients // len(labels)
    return client


def _grow(partition: SizeSkewed, rows: int) -> Ints:
    """One row for everybody, and the rest in the proportions asked for."""
    place = np.arange(1, partition.clients + 1, dtype=np.float64)
    weights = {
        "linear": place,
        "square": place**2,
        # Relative to the largest, so that many clients do not overflow.
        "exponential": np.exp(place - partition.clients),
    }[partition.growth]
    ends = np.round(np.cumsum(weights) / weights.sum() * (rows - partition.clients))
    sizes: Ints = np.diff(ends, prepend=0).astype(np.int64) + 1
    return sizes


def _draw_shares(partition: Dirichlet, labels: NDArray[Any], rng: np.random.Generator) -> Ints:
    clients, wanted = partition.clients, partition.min_partition_size
    if labels.dtype.kind == "f":
        raise DataError(
            "a Dirichlet partition shares out classes, and these targets are numbers; "
            "choose another partition, or task = 'classification' with whole-number labels"
        )
    if clients * wanted > len(labels):
        raise DataError(
            f"{clients} clients with at least {wanted} rows each need {clients * wanted} rows, "
            f"there are {len(labels)}; lower the least size (min-partition-size) or the clients"
        )
    places = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    most = 0
    for _ in range(_DRAWS):
        client = np.empty(len(labels), dtype=np.int64)
        sizes = np.zeros(clients, dtype=np.int64)
        for place in places:
            shares = rng.dirichlet(np.full(clients, partition.alpha))
            if partition.self_balancing:
                shares = _spare_the_full(shares, sizes, len(labels))
            ends = np.round(np.cumsum(shares) * len(place)).astype(np.int64)
            parts = np.diff(ends, prepend=0)
            client[rng.permutation(place)] = np.repeat(np.arange(clients), parts)
            sizes += parts
        if sizes.min() >= wanted:
            return client
        most = max(most, int(sizes.min()))
    raise DataError(
        f"in {_DRAWS} draws of a Dirichlet partition with alpha {partition.alpha:g}, the smallest "
        f"of {clients} clients never had more than {most} rows, and {wanted} are wanted; lower "
        "min-partition-size, raise alpha, or take fewer clients"
    )


def _spare_the_full(shares: NDArray[np.float64], sizes: Ints, rows: int) -> NDArray[np.float64]:
    open_to_more = np.where(sizes < rows / len(sizes), shares, 0.0)
    total = float(open_to_more.sum())
    return open_to_more / total if total > 0 else shares
