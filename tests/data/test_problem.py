"""Problems from arrays: nothing is lost or mixed up, and what cannot be used is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import scfl
from scfl.data.dataset import load_arrays, load_digits, make_regression
from scfl.data.partition import assign_clients
from scfl.errors import DataError, ParameterError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3))
Y = RNG.standard_normal(40)


def test_rows_keep_their_client_and_their_target() -> None:
    by_row = np.repeat([7, 3, 5, 3], 10)
    problem = scfl.make_problem(X, Y, clients=by_row, dtype="float64")
    assert list(problem.client_names) == ["3", "5", "7"]
    assert problem.client_rows.tolist() == [20, 10, 10]
    for index, name in enumerate(problem.client_names):
        rows, targets = (
            problem.features[problem.client(index)],
            problem.targets[problem.client(index)],
        )
        mine = by_row == int(name)
        together = np.column_stack([rows, targets])
        wanted = np.column_stack([X[mine], Y[mine]])
        np.testing.assert_array_equal(
            together[np.lexsort(together.T)], wanted[np.lexsort(wanted.T)]
        )


def test_rows_are_shuffled_within_a_client() -> None:
    ordered = np.arange(40.0)[:, None]
    problem = scfl.make_problem(ordered, Y, clients=2, dtype="float64")
    first = problem.features[problem.client(0)][:, 0]
    assert (np.diff(first) < 0).any()
    assert (np.diff(first) > 0).any()


def test_label_sorted_shards_are_equal_and_pure() -> None:
    labels = np.repeat(np.arange(10), 12)
    problem = scfl.make_problem(RNG.standard_normal((120, 2)), labels, clients=scfl.LabelSorted(20))
    counts = problem.client_classes()
    assert counts is not None
    assert problem.client_rows.tolist() == [6] * 20
    assert (counts > 0).sum(axis=1).tolist() == [1] * 20


def test_iid_clients_see_every_class() -> None:
    labels = np.repeat(np.arange(3), 100)
    counts = scfl.make_problem(RNG.standard_normal((300, 2)), labels, clients=3).client_classes()
    assert counts is not None
    assert (counts > 20).all()


def test_partitions_are_equal_sized_whatever_the_remainder() -> None:
    for rule in (scfl.LabelSorted(7), scfl.Iid(7)):
        sizes = np.bincount(assign_clients(rule, Y, 0))
        assert sizes.sum() == 40
        assert sizes.max() - sizes.min() <= 1


def test_a_test_set_is_set_aside_and_never_trained_on() -> None:
    ids = np.arange(40.0)[:, None]
    problem = scfl.make_problem(ids, Y, clients=4, test_fraction=0.25, dtype="float64")
    trained, tested = set(problem.features[:, 0]), set(problem.test_features[:, 0])
    assert len(tested) == 10
    assert not trained & tested
    assert trained | tested == set(ids[:, 0])


def test_classes_become_columns_and_come_back() -> None:
    labels = np.where(X[:, 0] > 0, "b", "a")
    problem = scfl.make_problem(X, labels, clients=2)
    assert problem.task == "classification"
    assert problem.targets.sum(axis=1).tolist() == [1.0] * 40
    model = np.zeros((3, 2))
    model[0] = [-1, 1]
    assert (problem.predict(model, X) == labels).all()


def test_numbers_are_regression_unless_told_otherwise() -> None:
    assert scfl.make_problem(X, Y, clients=2).task == "regression"
    whole = RNG.integers(0, 3, 40)
    assert scfl.make_problem(X, whole, clients=2).task == "classification"
    assert scfl.make_problem(X, whole, clients=2, task="regression").task == "regression"


def test_features_and_intercept_apply_to_new_rows_too() -> None:
    features = scfl.RandomFourier(200, width=2.0, random_state=3)
    problem = scfl.make_problem(X, Y, clients=2, features=features, intercept=True)
    assert problem.shape.features == 201
    assert (problem.features[:, -1] == 1).all()
    kernel = problem.prepare(X)[:, :-1] @ problem.prepare(X)[:, :-1].T
    wanted = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2) / (2 * 2.0**2))
    assert np.abs(kernel - wanted).max() < 0.35
    assert np.abs(kernel - wanted).mean() < 0.1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"X": np.where(np.arange(120).reshape(40, 3) == 52, np.nan, X)},
            "X, row 17, column 1: nan",
        ),
        ({"X": X[:, 0]}, "X has shape (40,)"),
        ({"X": X.astype(str)}, "give numbers"),
        ({"y": Y[:-1]}, "y has 39 rows, X has 40"),
        ({"y": np.where(np.arange(40) == 3, np.inf, Y)}, "y, row 3, column 0: inf"),
        ({"y": np.zeros(40, int)}, "single class"),
        ({"clients": 41}, "41 clients for 40 training rows"),
        ({"clients": np.zeros(39)}, "clients has shape (39,)"),
        (
            {"clients": np.repeat([0, 1], 20), "client_names": ["0", "1", "2"]},
            "'2' has no training rows",
        ),
        (
            {"clients": np.repeat([0, 1], 20), "client_names": ["0"]},
            "'1' is not among client_names",
        ),
        ({"test": (X[:, :2], Y)}, "test X has 2 columns, X has 3"),
        (
            {"y": np.array(["a", "b"] * 20), "test": (X[:1], np.array(["c"]))},
            "test y, row 0: class",
        ),
    ],
)
def test_what_cannot_be_used_is_named(change: dict[str, object], sentence: str) -> None:
    arguments = {"X": X, "y": Y, "clients": 4, **change}
    with pytest.raises(DataError) as error:
        scfl.make_problem(**arguments)  # type: ignore[arg-type]
    assert sentence in str(error.value)


def test_a_bad_value_names_the_client_whose_row_it_is_in() -> None:
    broken = np.where(np.arange(120).reshape(40, 3) == 52, np.nan, X)
    by_row = np.repeat(["north", "south"], [15, 25])
    with pytest.raises(DataError, match=r"^X, row 17, client 'south', column 1: nan cannot"):
        scfl.make_problem(broken, Y, clients=by_row)


def test_wrong_parameters_are_reported_together() -> None:
    with pytest.raises(ParameterError) as error:
        scfl.make_problem(X, Y, clients=0, test_fraction=1.0, task="guess")  # type: ignore[arg-type]
    assert len(error.value.problems) == 3


def test_digits_are_scaled() -> None:
    digits = load_digits()
    assert digits.X.shape == (1797, 64)
    assert digits.X.min() == 0
    assert digits.X.max() == 1


def test_made_up_regressions_follow_a_linear_model() -> None:
    data = make_regression(500, 5, 2)
    fit, *_ = np.linalg.lstsq(data.X, data.y, rcond=None)
    assert (data.y - data.X @ fit).std() == pytest.approx(0.1, rel=0.1)


def test_arrays_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, X=X, y=Y, clients=np.repeat([0, 1], 20))
    data = load_arrays(path)
    np.testing.assert_array_equal(data.X, X)
    assert data.clients is not None
    assert data.test is None


def test_files_that_cannot_be_read_are_explained(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such file"):
        load_arrays(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(DataError, match=r"not an \.npz file"):
        load_arrays(tmp_path / "text.npz")
    np.savez(tmp_path / "short.npz", X=X)
    with pytest.raises(DataError, match="no array named 'y'"):
        load_arrays(tmp_path / "short.npz")
    np.savez(tmp_path / "objects.npz", X=np.array([{}]), y=Y)
    with pytest.raises(DataError, match="plain arrays"):
        load_arrays(tmp_path / "objects.npz")


def test_clients_named_by_numbers_stand_in_the_order_of_their_numbers() -> None:
    problem = scfl.make_problem(X, Y, clients=np.repeat([10, 2, 1, 0], 10))
    assert list(problem.client_names) == ["0", "1", "2", "10"]
    mixed = scfl.make_problem(X, Y, clients=np.array([1, "b"] * 20, dtype=object))
    assert list(mixed.client_names) == ["1", "b"]


@pytest.mark.parametrize("nobody", [None, np.nan])
def test_a_row_of_nobody_is_refused(nobody: object) -> None:
    by_row = np.array(["a", "b"] * 20, dtype=object)
    by_row[7] = nobody
    with pytest.raises(DataError, match=r"clients, row 7: nobody is named \(1 such"):
        scfl.make_problem(X, Y, clients=by_row)


def test_numbers_that_training_cannot_square_are_refused() -> None:
    with pytest.raises(DataError, match=r"X holds .*e\+\d+, too large for float32.*scale it"):
        scfl.make_problem(X * 1e30, Y, clients=4)
    with pytest.raises(DataError, match=r"y holds .* too large for float64"):
        scfl.make_problem(X, -1e200 * np.abs(Y), clients=4, dtype="float64")
    scfl.make_problem(X * 1e30, Y, clients=4, dtype="float64")


def test_a_test_set_leaves_something_to_train_on() -> None:
    with pytest.raises(DataError, match=r"test_fraction 0.999 leaves none of 40 rows"):
        scfl.make_problem(X, Y, clients=4, test_fraction=0.999)
