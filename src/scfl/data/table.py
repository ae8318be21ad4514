"""The user's own tables: CSV and Parquet, with columns by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from scfl.core.parameter import Requirements, suggest
from scfl.data.dataset import Dataset
from scfl.data.scaling import Scaling
from scfl.errors import DataError, Problem

SUFFIXES = (".csv", ".parquet")
# More kinds than this are rather a name or a number for each row.
_MOST_CATEGORIES = 1000
_MOST_CLASSES = 100


@dataclass(frozen=True)
class TableColumns:
    """What each column of a table is for.

    Without ``numeric`` and ``categorical``, every column but the target and the client is used:
    numbers as they are, text by categories. With either, the columns in neither are left out. A
    categorical column becomes one column of 0 and 1 for each of its categories. ``missing`` fills
    gaps in numeric columns; in a categorical one, a gap is a category of its own.
    """

    target: str
    client: str | None = None
    numeric: tuple[str, ...] | None = None
    categorical: tuple[str, ...] | None = None
    scaling: Literal["standard", "range", "none"] = "standard"
    missing: Literal["refuse", "mean", "zero"] = "refuse"

    def __post_init__(self) -> None:
        with Requirements() as require:
            require.that(_is_name(self.target), "target", "give the name of a column")
            is_client = self.client is None or _is_name(self.client)
            require.that(is_client, "client", "give the name of a column")
            for field in ("numeric", "categorical"):
                names = getattr(self, field)
                listed = isinstance(names, tuple) and all(map(_is_name, names))
                require.that(
                    names is None or listed, field, f"{names!r} is not a list of column names"
                )
            require.choice("scaling", self.scaling, ("standard", "range", "none"))
            require.choice("missing", self.missing, ("refuse", "mean", "zero"))


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


@dataclass(frozen=True, eq=False)
class _Opened:
    """A table, where it is from, and what its columns are for: what every sentence speaks of."""

    path: Path
    table: pa.Table
    use: TableColumns

    def column(self, name: str) -> pa.Array:
        return self.table[name].combine_chunks()

    def where(self, name: str, row: int) -> str:
        """File, row (the first after the header is 1), client and column, as far as known."""
        client, known = "", self.use.client
        if known in self.table.column_names and known != name:
            client = f", client {str(self.table[known][row].as_py())!r}"
        return f"{self.path}, row {row + 1}{client}, column {name!r}"


def load_table(path: Path, use: TableColumns, task: str = "auto") -> Dataset:
    """Read a table: numeric columns first, then one column for each category of the others."""
    opened = _Opened(path, _read(path), use)
    numeric, categorical = _choose_columns(opened)
    y = _read_targets(opened, task)
    clients = None
    if use.client is not None:
        _refuse_gaps(opened, use.client, "every row needs a client, so remove the row")
        clients = np.array(_as_text(opened.column(use.client)))
    blocks = [_read_numbers(opened, name) for name in numeric]
    blocks += [_read_categories(opened, name) for name in categorical]
    scaling = Scaling(use.scaling, use.missing, len(numeric))
    return Dataset(np.concatenate(blocks, axis=1), y, clients, scaling=scaling)


def _read(path: Path) -> pa.Table:
    try:
        if path.suffix == ".parquet":
            table = pa.parquet.read_table(path)
        else:
            options = pa.csv.ConvertOptions(strings_can_be_null=True)
            table = pa.csv.read_csv(path, convert_options=options)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file; give the path of a table") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        said = str(error).splitlines()[0]
        raise DataError(f"{path}: cannot be read as {path.suffix[1:]} ({said})") from None
    if table.num_rows == 0:
        raise DataError(f"{path}: has no rows; give a table with some")
    return table


def _choose_columns(opened: _Opened) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The numeric and the categorical columns; every name that the table lacks is reported."""
    use, names = opened.use, opened.table.column_names
    given = {
        "target": (use.target,),
        "client": (use.client,) if use.client else (),
        "numeric": use.numeric or (),
        "categorical": use.categorical or (),
    }
    problems = [
        Problem(f"table.{key}", f"{opened.path} has no column {name!r}; {suggest(name, names)}")
        for key, columns in given.items()
        for name in columns
        if name not in names
    ]
    used = (use.target, *given["numeric"], *given["categorical"])
    problems += [
        Problem("table", f"column {name!r} is named twice; it can be one thing only")
        for name in sorted(set(used))
        if used.count(name) > 1
    ]
    if problems:
        raise DataError(problems)
    numeric, categorical = given["numeric"], given["categorical"]
    if use.numeric is None and use.categorical is None:
        rest = [name for name in names if name not in (use.target, use.client)]
        numeric = tuple(name for name in rest if _holds_numbers(opened.table[name].type))
        categorical = tuple(name for name in rest if name not in numeric)
    if not numeric and not categorical:
        raise DataError(
            f"{opened.path}: no column is left to learn from; name some in table.numeric"
        )
    return numeric, categorical


def _read_targets(opened: _Opened, task: str) -> NDArray[Any]:
    name = opened.use.target
    _refuse_gaps(opened, name, "every row needs a target, so remove the row")
    column = opened.column(name)
    if not _holds_numbers(column.type):
        return np.array(_as_text(column))
    if pa.types.is_decimal(column.type):
        column = pc.cast(column, pa.float64())
    targets: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    if task == "auto" and targets.dtype.kind in "iu":
        values = len(np.unique(targets))
        if values > _MOST_CLASSES:
            sentence = f"column {name!r} of {opened.path} holds {values} different whole numbers"
            way_out = "say task = 'regression' or task = 'classification'"
            raise DataError([Problem("task", f"{sentence}; {way_out}")])
    return targets


def _read_numbers(opened: _Opened, name: str) -> NDArray[np.float64]:
    column = opened.column(name)
    if not _holds_numbers(column.type):
        raise _not_numbers(opened, name)
    if opened.use.missing == "refuse":
        _refuse_gaps(
            opened, name, "remove the row, or fill gaps with table.missing = 'mean' or 'zero'"
        )
    numbers = np.array(pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False))
    endless = np.flatnonzero(np.isinf(numbers))
    if endless.size:
        where = opened.where(name, int(endless[0]))
        raise DataError(f"{where}: {numbers[endless[0]]} cannot be trained on; correct it")
    return numbers[:, None]


def _read_categories(opened: _Opened, name: str) -> NDArray[np.float64]:
    """One column of 0 and 1 for each category that any client has."""
    if opened.use.missing == "refuse":
        advice = "remove the row, or let a gap be a category with table.missing = 'mean' or 'zero'"
        _refuse_gaps(opened, name, advice)
    words = np.array(["" if word is None else word for word in _as_text(opened.column(name))])
    categories = np.unique(words)
    if len(categories) > _MOST_CATEGORIES:
        raise DataError(
            f"{opened.path}, column {name!r}: {len(categories)} different values are no categories "
            f"(at most {_MOST_CATEGORIES}); say which columns to use in table.categorical"
        )
    indicators: NDArray[np.float64] = (words[:, None] == categories).astype(np.float64)
    return indicators


def _holds_numbers(kind: pa.DataType) -> bool:
    is_kind = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return any(is_it(kind) for is_it in is_kind)


def _as_text(column: pa.Array) -> list[str | None]:
    texts: list[str | None] = pc.cast(column, pa.string()).to_pylist()
    return texts


def _refuse_gaps(opened: _Opened, name: str, advice: str) -> None:
    missing = pc.is_null(opened.column(name), nan_is_null=True)
    gaps = np.flatnonzero(missing.to_numpy(zero_copy_only=False))
    if gaps.size:
        more = f" (and in {len(gaps) - 1} more rows)" if len(gaps) > 1 else ""
        where = opened.where(name, int(gaps[0]))
        raise DataError(f"{where}: the value is missing{more}; {advice}")


def _not_numbers(opened: _Opened, name: str) -> DataError:
    """Which value of a column of text is no number."""
    for row, text in enumerate(_as_text(opened.column(name))):
        try:
            float("nan" if text is None else text)
        except ValueError:
            return DataError(
                f"{opened.where(name, row)}: {text!r} is not a number; "
                "correct it, or name the column in table.categorical"
            )
    kind = opened.table[name].type
    return DataError(f"{opened.path}, column {name!r}: holds {kind}, not numbers; leave it out")
