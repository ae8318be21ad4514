"""A client's file: what is read, what is said of it, and one sentence for what cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scfl.data.features import RandomFourier
from scfl.errors import DataError
from scfl.runtime.network.holdings import FileHoldings

CLASSES = {"task": "auto", "dtype": "float64"}


def write(path: Path, **columns: Any) -> Path:
    table = pa.table(columns)
    if path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    else:
        pq.write_table(table, path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_with_words_for_targets_is_classification(suffix: str, tmp_path: Path) -> None:
    path = write(
        tmp_path / f"share{suffix}", a=[1.0, 2.0, 3.0], kind=["no", "yes", "no"], b=[4, 5, 6]
    )
    holdings = FileHoldings(path, "kind", "north")
    told = holdings.describe(CLASSES)
    assert (told.name, told.rows, told.columns) == ("north", 3, ["a", "b"])
    assert told.labels == ["no", "yes"]
    rows = holdings.prepare(["maybe", "no", "yes"], 3)
    order = np.argsort(rows.features[:, 0])
    assert rows.features[order].tolist() == [[1, 4], [2, 5], [3, 6]]
    assert rows.targets[order].tolist() == [[0, 1, 0], [0, 0, 1], [0, 1, 0]]


def test_several_targets_are_regression_and_features_are_mapped(tmp_path: Path) -> None:
    path = write(tmp_path / "share.csv", a=[1.0, 2.0], y=[1.0, 2.0], z=[3.0, 4.0])
    holdings = FileHoldings(path, "y, z", "north")
    mapping = {"dimensions": 7, "width": 2.0}
    told = holdings.describe({"features": mapping, "intercept": True, "dtype": "float32"})
    assert told.labels is None
    rows = holdings.prepare(None, 0)
    assert rows.features.dtype == np.float32
    order = np.argsort(rows.targets[:, 0])
    assert rows.targets[order].tolist() == [[1, 3], [2, 4]]
    wanted = RandomFourier(7, 2.0).transform(np.array([[1.0], [2.0]]))
    assert np.allclose(rows.features[order, :-1], wanted)
    assert (rows.features[:, -1] == 1).all()


def test_an_archive_of_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "share.npz", X=np.arange(6).reshape(3, 2), y=[1, 0, 1])
    told = FileHoldings(tmp_path / "share.npz", "target", "north").describe(CLASSES)
    assert told.columns == ["x0", "x1"]
    assert told.labels == [0, 1]


@pytest.mark.parametrize(
    ("name", "columns", "target", "sentence"),
    [
        ("none.csv", None, "y", "there is no such file"),
        ("share.txt", None, "y", "is not a .csv, .parquet or .npz file"),
        ("share.csv", {"a": [1.0], "price": [1.0]}, "prize", "did you mean 'price'?"),
        ("share.csv", {"a": ["x"], "y": [1.0]}, "y", "column 'a' holds string"),
        ("share.csv", {"y": [1.0]}, "y", "no column is left beside the target"),
        ("share.parquet", {"a": [1.0, None], "y": [1.0, 2.0]}, "y", "row 1 holds a value that is"),
        ("share.parquet", {"a": [1.0], "y": [np.inf]}, "y", "target of row 0 holds a value"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_sentence(
    name: str, columns: Any, target: str, sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if columns is not None:
        write(path, **columns)
    elif path.suffix == ".txt":
        path.write_text("a,y\n1,2\n")
    with pytest.raises(DataError) as raised:
        FileHoldings(path, target, "north").describe({})
    assert sentence in str(raised.value)
    assert name in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_class_that_nobody_agreed_on_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "share.csv", a=[1.0, 2.0], y=["new", "old"])
    holdings = FileHoldings(path, "y", "north")
    holdings.describe(CLASSES)
    with pytest.raises(DataError, match="class 'new' is not among the classes"):
        holdings.prepare(["old"], 1)
