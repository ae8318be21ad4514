"""Tables: what each column becomes, and sentences that name file, row, client and column."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from scfl.data.table import TableColumns, load_table
from scfl.errors import ConfigError, DataError, ParameterError
from scfl.study.config import check_tables
from scfl.study.source import load_problem

CSV = """clinic,age,smokes,colour,dose
north,31,true,red,1.5
north,44,false,blue,2.5
south,27,true,red,0.5
west,59,false,green,3.5
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "clinics.csv"
    file.write_text(CSV)
    return file


USE = TableColumns(target="dose", client="clinic")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_become_numbers(path: Path, kind: str) -> None:
    if kind == "parquet":
        table = pa.csv.read_csv(path)
        path = path.with_suffix(".parquet")
        pa.parquet.write_table(table, path)
    data = load_table(path, USE)
    # age, smokes, then blue, green, red
    assert data.X.tolist() == [
        [31, 1, 0, 0, 1],
        [44, 0, 1, 0, 0],
        [27, 1, 0, 0, 1],
        [59, 0, 0, 1, 0],
    ]
    assert data.y.tolist() == [1.5, 2.5, 0.5, 3.5]
    assert data.clients is not None
    assert data.clients.tolist() == ["north", "north", "south", "west"]
    assert data.scaling is not None
    assert data.scaling.columns == 2


def test_named_columns_are_the_ones_used(path: Path) -> None:
    use = TableColumns("colour", numeric=("dose",), categorical=("clinic",))
    data = load_table(path, use)
    assert data.X.tolist() == [[1.5, 1, 0, 0], [2.5, 1, 0, 0], [0.5, 0, 1, 0], [3.5, 0, 0, 1]]
    assert data.y.tolist() == ["red", "blue", "red", "green"]
    assert data.clients is None


def test_gaps_are_filled_where_that_is_asked_for(path: Path) -> None:
    path.write_text(CSV.replace("north,44,false,blue", "north,,false,"))
    data = load_table(path, TableColumns("dose", "clinic", missing="mean"))
    assert np.isnan(data.X[1, 0])
    # "" is the first of the categories "", green, red.
    assert data.X[1, 2:].tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("44,", ",", "clinics.csv, row 2, client 'north', column 'age': the value is missing;"),
        ("27,true,red", "27,true,", "row 3, client 'south', column 'colour': the value is missing"),
        ("3.5", "", "row 4, client 'west', column 'dose': the value is missing; every row needs"),
        ("south", "", "row 3, column 'clinic': the value is missing; every row needs a client"),
        ("59", "inf", "row 4, client 'west', column 'age': inf cannot be trained on"),
        (
            "south,27,true,red,0.5",
            "south,27",
            r"cannot be read as csv \(CSV parse error: Expected 5",
        ),
        (CSV[CSV.index("\n") + 1 :], "", "has no rows"),
    ],
)
def test_bad_values_are_named(path: Path, old: str, new: str, sentence: str) -> None:
    path.write_text(CSV.replace(old, new))
    with pytest.raises(DataError, match=sentence):
        load_table(path, USE)


@pytest.mark.parametrize(
    ("use", "sentence"),
    [
        (TableColumns("doze"), "table.target: .* has no column 'doze'; did you mean 'dose'?"),
        (TableColumns("dose", "klinic"), "table.client: .* has no column 'klinic'"),
        (TableColumns("dose", numeric=("agee",)), "table.numeric: .* has no column 'agee'"),
        (TableColumns("dose", numeric=("age", "age")), "column 'age' is named twice"),
        (TableColumns("dose", numeric=("dose",)), "column 'dose' is named twice"),
        (TableColumns("dose", numeric=()), "no column is left to learn from"),
        (
            TableColumns("dose", "clinic", numeric=("colour",)),
            "row 1, client 'north', column 'colour': 'red' is not a number",
        ),
    ],
)
def test_wrong_columns_are_named(path: Path, use: TableColumns, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        load_table(path, use)


def test_whole_numbers_need_a_word_on_the_task(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("x,price\n" + "\n".join(f"{i}.5,{i}" for i in range(200)))
    with pytest.raises(DataError, match=r"task: column 'price' .* 200 different whole numbers"):
        load_table(path, TableColumns("price"))
    assert load_table(path, TableColumns("price"), "regression").y[3] == 3


def test_names_are_no_categories(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("name,pay\n" + "\n".join(f"n{i},{i}.5" for i in range(1500)))
    with pytest.raises(DataError, match="1500 different values are no categories"):
        load_table(path, TableColumns("pay"))


def test_files_that_are_no_tables_are_explained(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such file"):
        load_table(tmp_path / "none.csv", USE)
    (tmp_path / "bad.parquet").write_text("hello")
    with pytest.raises(DataError, match="cannot be read as parquet"):
        load_table(tmp_path / "bad.parquet", USE)


def test_wrong_parameters_are_refused() -> None:
    with pytest.raises(ParameterError) as error:
        TableColumns("", 3, "age", (1,), "z", "drop")  # type: ignore[arg-type]
    assert len(error.value.problems) == 6


STUDY = {
    "partition": {"kind": "column"},
    "clock": {"rounds": 2},
    "methods": {"fedavg": {}},
}


def test_a_study_names_a_table(path: Path) -> None:
    section = {
        "dataset": path.name,
        "test-fraction": 0,
        "table": {"target": "dose", "client": "clinic"},
    }
    study = check_tables({**STUDY, "problem": section}, name="x", folder=path.parent)
    problem = load_problem(study)
    assert problem.client_names == ("north", "south", "west")
    assert problem.client_rows.tolist() == [2, 1, 1]
    np.testing.assert_allclose(problem.features[:, :2].mean(axis=0), 0, atol=1e-6)


@pytest.mark.parametrize(
    ("section", "sentence"),
    [
        ({"dataset": "a.csv"}, "problem.table: is missing; name at least the target"),
        ({"table": {"target": "y"}}, "problem.table: says what the columns of a table are for"),
        ({"dataset": "a.csv", "table": {}}, "problem.table.target: is missing"),
        (
            {"dataset": "a.csv", "table": {"targt": "y"}},
            "there is no such key; did you mean 'target'",
        ),
    ],
)
def test_a_study_without_its_columns_is_refused(section: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        check_tables({**STUDY, "problem": section}, name="x")


def test_clients_by_column_need_a_column(path: Path) -> None:
    section = {"dataset": path.name, "table": {"target": "dose"}}
    study = check_tables({**STUDY, "problem": section}, name="x", folder=path.parent)
    with pytest.raises(ConfigError, match=r"name the column in problem\.table\.client"):
        load_problem(study)
