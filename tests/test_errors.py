from __future__ import annotations

import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from scfl import errors
from scfl.errors import (
    ConfigError,
    DataError,
    InfeasibleError,
    OutputError,
    ParameterError,
    Problem,
    RunError,
    ScflError,
)

LISTED = [ParameterError, ConfigError, DataError, InfeasibleError]
PROBLEMS = [Problem("rows", "0 is not allowed"), Problem("", "no clients")]


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [*((kind, ValueError) for kind in LISTED), (OutputError, OSError), (RunError, RuntimeError)],
)
def test_each_error_is_also_the_fitting_builtin(kind, builtin):
    assert issubclass(kind, ScflError)
    assert issubclass(kind, builtin)


def test_the_tree_in_the_docstring_is_the_tree():
    """Whoever adds an error draws it."""
    defined = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, ScflError) and not name.startswith("_")
    }
    assert errors.__doc__ is not None
    assert defined == {word for word in errors.__doc__.split() if word in defined}
    for name in defined - {"ScflError"}:
        drawn = next(line for line in errors.__doc__.splitlines() if f" {name} " in line)
        kinds = getattr(errors, name).__mro__
        builtin = next(kind for kind in kinds if kind.__module__ == "builtins")
        assert f"({builtin.__name__})" in drawn


@pytest.mark.parametrize("kind", LISTED)
def test_a_listed_error_says_one_line_per_problem(kind):
    error = kind(PROBLEMS)
    assert str(error) == "rows: 0 is not allowed\nno clients"
    assert error.problems == tuple(PROBLEMS)


@pytest.mark.parametrize("kind", LISTED)
def test_a_bare_sentence_is_a_problem_without_a_place(kind):
    error = kind("no clients")
    assert str(error) == "no clients"
    assert error.problems == (Problem("", "no clients"),)


def test_a_problem_can_be_seen_from_further_out():
    problem = Problem("erasure", "is 2").within("law").within("fleet")
    assert str(problem) == "fleet.law.erasure: is 2"
    assert str(Problem("", "is empty").within("fleet")) == "fleet: is empty"


@pytest.mark.parametrize("kind", LISTED)
def test_problems_survive_pickling(kind):
    copy = pickle.loads(pickle.dumps(kind(PROBLEMS)))  # noqa: S301 - our own bytes
    assert type(copy) is kind
    assert copy.problems == tuple(PROBLEMS)
    assert str(copy) == str(kind(PROBLEMS))


def fail(kind: type[ScflError]) -> None:
    raise kind(PROBLEMS) if issubclass(kind, ValueError) else kind("the run stopped")


def test_errors_cross_process_borders_whole():
    """One worker process, started fresh as joblib and the simulator's jobs start theirs."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for kind in [*LISTED, OutputError, RunError]:
            with pytest.raises(kind) as error:
                pool.submit(fail, kind).result()
            assert type(error.value) is kind
            if issubclass(kind, ValueError):
                assert error.value.problems == tuple(PROBLEMS)
            else:
                assert str(error.value) == "the run stopped"
