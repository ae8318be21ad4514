"""Who holds which rows: rules that deal rows out to clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from scfl.core.parameter import Requirements
from scfl.core.randomness import Purpose, stream

Ints = NDArray[np.int64]


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


Partition = LabelSorted | Iid


def assign_clients(partition: Partition, labels: NDArray[Any], random_state: int) -> Ints:
    """The client of each row; ``labels`` may be class labels or numbers to sort by."""
    rng = stream(random_state, Purpose.PARTITION, 0)
    order = rng.permutation(len(labels))
    if isinstance(partition, LabelSorted):
        order = order[np.argsort(labels[order], kind="stable")]
    client = np.empty(len(labels), dtype=np.int64)
    client[order] = np.arange(len(labels)) * partition.clients // len(labels)
    return client
