"""A client's own file: rows, one column of targets or several, read once and mapped once.

CSV and Parquet tables have named columns; an .npz file has an array ``X`` of rows and the targets
``y``. Everybody builds the same features, because a map depends on its parameters alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from scfl.core.parameter import build, suggest
from scfl.core.randomness import Purpose, stream
from scfl.data.dataset import load_arrays
from scfl.data.features import RandomFourier
from scfl.errors import DataError
from scfl.runtime.network.wire import Described
from scfl.runtime.network.worker import Rows

Matrix = NDArray[Any]


@dataclass(eq=False)
class FileHoldings:
    """What a client's file holds; ``target`` names its target columns, separated by commas."""

    path: Path
    target: str
    name: str
    _table: tuple[list[str], Matrix, Matrix] | None = None
    _preparation: Mapping[str, Any] = field(default_factory=dict)

    def describe(self, preparation: Mapping[str, Any]) -> Described:
        """Rows, columns and labels; nothing else leaves before training."""
        self._preparation = preparation
        columns, rows, targets = self._read()
        labels = None
        if _is_classified(targets, str(preparation.get("task", "auto"))):
            labels = np.unique(targets[:, 0]).tolist()
        return Described(self.name, len(rows), columns, labels)

    def prepare(self, classes: list[Any] | None, outputs: int) -> Rows:
        """Features as the server asked for, and targets: numbers, or one column per class."""
        _, rows, targets = self._read()
        dtype = np.dtype(self._preparation.get("dtype", "float32"))
        mapping = self._preparation.get("features")
        if mapping is not None:
            rows = build(RandomFourier, mapping).transform(rows)
        if self._preparation.get("intercept"):
            rows = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
        if classes is not None:
            place = {label: index for index, label in enumerate(classes)}
            labels = targets[:, 0].tolist()
            unknown = next((label for label in labels if label not in place), None)
            if unknown is not None:
                raise DataError(
                    f"{self.path}: class {unknown!r} is not among the classes that were agreed on; "
                    "leave its rows out"
                )
            number = [place[label] for label in labels]
            targets = np.eye(len(classes))[number]
        # Any contiguous piece of the rows has to be a fair sample of them.
        order = stream(0, Purpose.PARTITION, 2).permutation(len(rows))
        return Rows(
            np.ascontiguousarray(rows[order], dtype=dtype),
            np.ascontiguousarray(targets[order], dtype=dtype),
        )

    def _read(self) -> tuple[list[str], Matrix, Matrix]:
        if self._table is None:
            self._table = read_table(self.path, [word.strip() for word in self.target.split(",")])
        return self._table


def read_table(path: Path, target: Sequence[str]) -> tuple[list[str], Matrix, Matrix]:
    """The names of the columns, the rows, and the targets as a table of their own."""
    if path.suffix == ".npz":
        dataset = load_arrays(path)
        rows, targets = np.asarray(dataset.X), np.asarray(dataset.y)
        targets = targets if targets.ndim == 2 else targets[:, None]
        names = [f"x{column}" for column in range(rows.shape[1] if rows.ndim == 2 else 0)]
    else:
        names, rows, targets = _split(path, _load(path), target)
    if rows.ndim != 2 or 0 in rows.shape or rows.dtype.kind not in "fiub":
        raise DataError(f"{path}: the rows are no table of numbers; give one number per column")
    if len(rows) != len(targets):
        raise DataError(f"{path}: {len(targets)} targets for {len(rows)} rows; give one per row")
    for what, values in (("row", rows), ("target of row", targets)):
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            at = int(np.argwhere(~np.isfinite(values))[0][0])
            raise DataError(
                f"{path}: {what} {at} holds a value that is missing or not finite; remove the row "
                "or fill it in"
            )
    return names, rows.astype(np.float64), targets


def _load(path: Path) -> pa.Table:
    try:
        if path.suffix == ".csv":
            return pa.csv.read_csv(path)
        if path.suffix == ".parquet":
            return pq.read_table(path)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file; correct data= in --node-config") from None
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path}: cannot be read ({error})") from None
    raise DataError(f"{path}: is not a .csv, .parquet or .npz file; convert it to one of these")


def _split(path: Path, table: pa.Table, target: Sequence[str]) -> tuple[list[str], Matrix, Matrix]:
    for name in target:
        if name not in table.column_names:
            raise DataError(
                f"{path}: there is no column {name!r}; {suggest(name, table.column_names)}"
            )
    columns = [name for name in table.column_names if name not in target]
    for name in columns:
        kind = table.schema.field(name).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise DataError(
                f"{path}: column {name!r} holds {kind}; turn it into numbers or leave it out"
            )
    rows = [table.column(name).to_numpy().astype(np.float64) for name in columns]
    targets = [table.column(name).to_numpy() for name in target]
    if not rows:
        raise DataError(f"{path}: no column is left beside the target; give a table with features")
    return columns, np.stack(rows, axis=1), np.stack(targets, axis=1)


def _is_classified(targets: Matrix, task: str) -> bool:
    if task == "auto":
        return targets.shape[1] == 1 and targets.dtype.kind not in "fc"
    return task == "classification"
