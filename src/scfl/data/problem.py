"""A federated least-squares problem: who holds which rows, and what the answer is tested on."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scfl.core.fleet import Shape
from scfl.core.moments import Moments, measure_moments
from scfl.core.parameter import Requirements, show
from scfl.core.randomness import Purpose, stream
from scfl.core.sampling import RowStore, store_rows
from scfl.data.features import FeatureMap
from scfl.data.partition import Iid, Partition, assign_clients
from scfl.data.scaling import FittedScaling, Scaling, fit_scaling
from scfl.errors import DataError
from scfl.errors import Problem as Issue

Matrix = NDArray[Any]
Ints = NDArray[np.int64]
Task = Literal["auto", "classification", "regression"]
Kept = TypeVar("Kept")


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows of all clients, client after client, ready for training.

    Build one with :func:`make_problem`. For classification, targets are one column per class, 1
    for a row's own class and 0 elsewhere, and a prediction is the class of the largest output.
    Where a bound on the ``row_norm`` of [x, y] is set, ``scaled_down`` counts each client's rows
    that were above it (:func:`scfl.bound_rows`).
    """

    features: Matrix
    targets: Matrix
    client_rows: Ints
    client_names: Sequence[str]
    test_features: Matrix
    test_targets: Matrix
    classes: NDArray[Any] | None = None
    feature_map: FeatureMap | None = None
    intercept: bool = False
    name: str = "problem"
    row_norm: float | None = None
    scaled_down: Ints | None = None
    scaling: FittedScaling | None = None

    @property
    def shape(self) -> Shape:
        return Shape(self.client_rows, self.features.shape[1], self.targets.shape[1])

    @property
    def task(self) -> Literal["classification", "regression"]:
        return "regression" if self.classes is None else "classification"

    @cached_property
    def moments(self) -> Moments:
        """The sums of products of all rows: what only a simulator can know, and asks for often."""
        return measure_moments(self.features, self.targets)

    def recall(self, what: str, key: Hashable, make: Callable[[], Kept]) -> Kept:
        """What ``make`` gives, kept until it is asked for by another key."""
        memory = self.__dict__.setdefault("_memory", {})
        kept: tuple[Hashable, Kept] | None = memory.get(what)
        if kept is None or kept[0] != key:
            # The old goes before the new is made: either may be large.
            memory.pop(what, None)
            kept = None
            kept = memory[what] = (key, make())
        return kept[1]

    def arrange(self, subsets: int) -> RowStore:
        """All rows, batch-major; the last arrangement is kept, as runs mostly ask for the same.

        One subset is the rows as they stand: nothing is copied, and nothing else forgotten for it.
        """

        def make() -> RowStore:
            return store_rows(self.features, self.targets, self.client_rows, subsets)

        return make() if subsets == 1 else self.recall("rows", subsets, make)

    def client(self, index: int) -> slice:
        """The rows of one client."""
        stop = int(self.client_rows[: index + 1].sum())
        return slice(stop - int(self.client_rows[index]), stop)

    def client_classes(self) -> Ints | None:
        """How many rows of each class each client holds."""
        if self.classes is None:
            return None
        starts = np.cumsum(self.client_rows) - self.client_rows
        counts: Ints = np.add.reduceat(self.targets > 0, starts, axis=0, dtype=np.int64)
        return counts

    def prepare(self, X: ArrayLike) -> Matrix:
        """Turn raw rows into the features that the model was trained on."""
        rows = _check_matrix("X", X, gaps=self.scaling is not None)
        if self.scaling is not None:
            rows = self.scaling.transform(rows)
        return _map_rows(rows, self.feature_map, self.intercept, self.features.dtype)

    def predict(self, model: Matrix, X: ArrayLike) -> Matrix:
        """Apply a model to raw rows: class labels, or numbers for regression."""
        scores: Matrix = self.prepare(X) @ model
        if self.classes is not None:
            labels: Matrix = self.classes[scores.argmax(axis=1)]
            return labels
        return scores[:, 0] if scores.shape[1] == 1 else scores


def make_problem(
    X: ArrayLike,
    y: ArrayLike,
    *,
    clients: ArrayLike | Partition | int = 20,
    features: FeatureMap | None = None,
    scaling: Scaling | None = None,
    test: tuple[ArrayLike, ArrayLike] | None = None,
    test_fraction: float = 0.0,
    task: Task = "auto",
    intercept: bool = False,
    client_names: Sequence[str] | None = None,
    dtype: Literal["float32", "float64"] = "float32",
    random_state: int = 0,
    name: str = "problem",
) -> Problem:
    """Build a problem from arrays.

    ``clients`` says who holds which row: an array with one client per row, a partition rule such
    as ``LabelSorted(20)``, or a number for an IID split. ``scaling`` is measured client by client
    and comes before ``features``. ``y`` holds class labels, numbers, or one column per output;
    ``task="auto"`` takes floating-point targets for regression and all others for class labels.
    ``test`` holds rows to test on; ``test_fraction`` sets some of ``X`` aside.
    Rows are shuffled within each client, so that any contiguous piece is a fair sample.
    """
    with Requirements() as require:
        require.number("test_fraction", test_fraction, at_least=0, below=1)
        require.choice("task", task, ("auto", "classification", "regression"))
        require.choice("dtype", dtype, ("float32", "float64"))
        require.count("random_state", random_state)
        if isinstance(clients, int):
            require.count("clients", clients, at_least=1)
    gaps = scaling is not None and scaling.missing != "refuse"
    rows = _check_matrix("X", X, gaps=True)
    labels = _check_targets("y", y, len(rows))
    by_row = None
    if not isinstance(clients, (int, Partition)):
        by_row = _check_clients(clients, len(rows))
    if not gaps:
        _refuse_nonfinite("X", rows, by_row)
    _refuse_huge("X", rows, dtype)
    _refuse_huge("y", labels, dtype)
    if test is not None:
        test_rows = _check_matrix("test X", test[0], gaps=gaps)
        test_labels = _check_targets("test y", test[1], len(test_rows))
        if test_rows.shape[1] != rows.shape[1]:
            raise DataError(
                f"test X has {test_rows.shape[1]} columns, X has {rows.shape[1]}; "
                "give the same columns"
            )
    else:
        keep, aside = _split(len(rows), test_fraction, random_state)
        if not keep.size:
            raise DataError(
                f"test_fraction {test_fraction:g} leaves none of {len(rows)} rows to train on; "
                "give a smaller one"
            )
        test_rows, test_labels = rows[aside], labels[aside]
        rows, labels = rows[keep], labels[keep]
        by_row = None if by_row is None else by_row[keep]

    classify = task == "classification" or (
        task == "auto" and labels.ndim == 1 and labels.dtype.kind not in "fc"
    )
    if classify and labels.ndim == 2:
        raise DataError(
            f"y has {labels.shape[1]} columns; classification takes one label per row, "
            "or use task='regression' for several outputs"
        )
    if by_row is None:
        partition = Iid(clients) if isinstance(clients, int) else clients
        assert isinstance(partition, Partition)
        by_row = assign_clients(
            partition, labels if labels.ndim == 1 else labels[:, 0], random_state
        )
        names = [f"client {index}" for index in range(partition.clients)]
    else:
        # In the clients' own order: client 10 comes after client 2.
        names = [str(client) for client in np.unique(by_row)]
    names = list(client_names) if client_names is not None else names
    numbers = _number_clients(by_row, names)

    shuffled = stream(random_state, Purpose.PARTITION, 1).permutation(len(rows))
    order = shuffled[np.argsort(numbers[shuffled], kind="stable")]
    classes, targets, test_targets = _encode_targets(labels[order], test_labels, classify, dtype)
    rows, client_rows, fitted = rows[order], np.bincount(numbers, minlength=len(names)), None
    if scaling is not None:
        fitted = fit_scaling(scaling, np.split(rows, np.cumsum(client_rows)[:-1]))
        rows, test_rows = fitted.transform(rows), fitted.transform(test_rows)
    return Problem(
        features=_map_rows(rows, features, intercept, np.dtype(dtype)),
        targets=targets,
        client_rows=client_rows,
        client_names=tuple(names),
        test_features=_map_rows(test_rows, features, intercept, np.dtype(dtype)),
        test_targets=test_targets,
        classes=classes,
        feature_map=features,
        intercept=intercept,
        name=name,
        scaling=fitted,
    )


def _split(rows: int, test_fraction: float, random_state: int) -> tuple[Ints, Ints]:
    order = stream(random_state, Purpose.SPLIT).permutation(rows)
    aside = round(rows * test_fraction)
    return np.sort(order[aside:]), np.sort(order[:aside])


def _map_rows(
    rows: Matrix, features: FeatureMap | None, intercept: bool, dtype: np.dtype[Any]
) -> Matrix:
    mapped = rows if features is None else features.transform(rows)
    if intercept:
        mapped = np.concatenate([mapped, np.ones((len(mapped), 1))], axis=1)
    return np.ascontiguousarray(mapped, dtype=dtype)


def _encode_targets(
    labels: Matrix, test_labels: Matrix, classify: bool, dtype: str
) -> tuple[Matrix | None, Matrix, Matrix]:
    if not classify:
        return None, _columns(labels, dtype), _columns(test_labels, dtype)
    classes = np.unique(labels)
    if len(classes) < 2:
        raise DataError(
            f"y holds the single class {show(classes[0])}; classification needs at least 2"
        )
    unknown = np.flatnonzero(~np.isin(test_labels, classes))
    if unknown.size:
        raise DataError(
            f"test y, row {unknown[0]}: class {show(test_labels[unknown[0]])} does not occur in "
            "training; remove the row or train on that class too"
        )
    return (
        classes,
        (labels[:, None] == classes).astype(dtype),
        (test_labels[:, None] == classes).astype(dtype),
    )


def _columns(labels: Matrix, dtype: str) -> Matrix:
    return np.ascontiguousarray(labels if labels.ndim == 2 else labels[:, None], dtype=dtype)


def _check_matrix(name: str, values: ArrayLike, *, gaps: bool = False) -> Matrix:
    matrix = np.asarray(values)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise DataError(f"{name} has shape {matrix.shape}; give a table of rows by columns")
    if matrix.dtype.kind not in "fiub":
        raise DataError(f"{name} holds {matrix.dtype} values; give numbers")
    if not gaps:
        _refuse_nonfinite(name, matrix)
    return matrix


def _check_targets(name: str, values: ArrayLike, rows: int) -> Matrix:
    targets = np.asarray(values)
    if targets.ndim not in (1, 2) or targets.dtype.kind == "O":
        raise DataError(
            f"{name} has shape {targets.shape} and type {targets.dtype}; "
            "give one label or number per row, or one column per output"
        )
    if len(targets) != rows:
        raise DataError(f"{name} has {len(targets)} rows, X has {rows}; give one target per row")
    if targets.dtype.kind == "f":
        _refuse_nonfinite(name, targets if targets.ndim == 2 else targets[:, None])
    return targets


def _refuse_nonfinite(name: str, matrix: Matrix, by_row: Matrix | None = None) -> None:
    if matrix.dtype.kind == "f" and not np.isfinite(matrix).all():
        bad = np.argwhere(~np.isfinite(matrix))
        row, column = bad[0]
        client = "" if by_row is None else f", client {str(by_row[row])!r}"
        where = f"{name}, row {row}{client}, column {column}"
        sentence = (
            f"{matrix[row, column]} cannot be trained on ({len(bad)} such values in all); "
            "remove those rows or fill them in"
        )
        raise DataError([Issue(where, sentence)])


def _refuse_huge(name: str, values: Matrix, dtype: str) -> None:
    """Refuse numbers whose square no number of the type can hold: training squares and adds."""
    most = float(np.finfo(dtype).max) ** 0.5 / 1e3
    if values.dtype.kind not in "fiu" or values.size == 0:
        return
    largest = max(float(values.max()), -float(values.min()))
    if largest > most:
        raise DataError(
            f"{name} holds {largest:.3g}, too large for {dtype}, which is good for numbers up to "
            f"{most:.0e}; scale it"
        )


def _check_clients(clients: Any, rows: int) -> Matrix:
    by_row = np.asarray(clients)
    if by_row.ndim != 1 or len(by_row) != rows:
        raise DataError(
            f"clients has shape {by_row.shape}, X has {rows} rows; give one client per row, "
            "a partition such as LabelSorted(20), or a number of clients"
        )
    if by_row.dtype.kind not in "iuUSb":
        nobody = [name is None or str(name) == "nan" for name in by_row.tolist()]
        missing = np.flatnonzero(nobody)
        if missing.size:
            raise DataError(
                f"clients, row {missing[0]}: nobody is named ({len(missing)} such rows in all); "
                "name a client or remove those rows"
            )
        if len({type(name) for name in by_row.tolist()}) > 1:
            by_row = by_row.astype(str)
    return by_row


def _number_clients(by_row: Matrix, names: Sequence[str]) -> Ints:
    """The place in ``names`` of each row's client."""
    if by_row.dtype.kind in "iu" and names == [f"client {i}" for i in range(len(names))]:
        return by_row.astype(np.int64)
    place = {name: index for index, name in enumerate(names)}
    present, inverse = np.unique(by_row, return_inverse=True)
    unknown = [str(client) for client in present if str(client) not in place]
    if unknown:
        raise DataError(f"clients: {unknown[0]!r} is not among client_names; name every client")
    empty = set(names) - {str(client) for client in present}
    if empty:
        raise DataError(
            f"clients: {min(empty)!r} has no training rows; leave that client out or give it rows"
        )
    return np.array([place[str(client)] for client in present], dtype=np.int64)[inverse]
