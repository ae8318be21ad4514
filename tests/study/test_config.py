"""Configurations: what a file means, and one clear sentence for everything that is wrong in it."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import scfl
from scfl.errors import ConfigError
from scfl.study.config import check_tables, load_study_config, parse_tables

DEMO = files("scfl.study").joinpath("demo.toml").read_text(encoding="utf-8")

SMALL = """
seeds = [3, 1]
[problem]
dataset = "regression"
rows = 60
columns = 3
[partition]
clients = 4
[clock]
rounds = 6
[defaults]
learning-rate = 0.5
batches = { subsets = 3 }
[methods.scfl]
coded-rows = 10
noise = { sigma = 0.5, labels = true }
batches = { rows = 2 }
[methods.slow]
method = "fedavg"
learning-rate = { start = 1.0, factor = 0.5, at-rounds = [2, 4] }
"""


def tables(text: str = SMALL) -> dict[str, Any]:
    return parse_tables(text, "test.toml")


def problems_of(changes: dict[str, Any] | str) -> list[str]:
    given = parse_tables(changes, "test.toml") if isinstance(changes, str) else changes
    with pytest.raises(ConfigError) as error:
        check_tables({**tables(), **given}, name="test")
    return [str(problem) for problem in error.value.problems]


def test_a_file_becomes_the_same_objects_as_python() -> None:
    study = check_tables(tables(), name="small")
    assert study.name == "small"
    assert study.seeds == (3, 1)
    assert dict(study.methods) == {
        "scfl": scfl.SCFL(
            learning_rate=0.5,
            coded_rows=10,
            noise=scfl.Noise(0.5, labels=True),
            batches=scfl.Batches(subsets=3, rows=2),
        ),
        "slow": scfl.FedAvg(
            learning_rate=scfl.StepDecay(1.0, 0.5, (2, 4)), batches=scfl.Batches(3)
        ),
    }


def test_the_demo_is_sound() -> None:
    study = check_tables(parse_tables(DEMO, "demo.toml"), name="demo")
    assert {method.name for method in study.methods.values()} >= {"scfl", "fedavg", "fl-pma"}


def test_theorem_one_in_a_file() -> None:
    rate = "{ smoothness = 3.0, radius = 2.0, variance = 1.0 }"
    text = SMALL.replace("learning-rate = 0.5", f"learning-rate = {rate}")
    method = check_tables(tables(text), name="x").methods["scfl"]
    assert isinstance(method, scfl.SCFL)
    assert method.learning_rate == scfl.TheoremOne(3.0, 2.0, 1.0)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"methds": {}}, "methds: there is no such table or key; did you mean 'methods'?"),
        ({"clock": {"round": 5}}, "clock.round: there is no such key; did you mean 'rounds'?"),
        ({"clock": {}}, "clock.horizon-s: is missing; say how long to train"),
        ({"clock": {"rounds": -5}}, "clock.rounds: -5 is not allowed; give a whole number"),
        ({"clock": {"horizon-s": "long"}}, "clock.horizon-s: 'long' is not allowed"),
        ({"clock": 5}, "clock: 5 is a value; write a table [clock]"),
        ({"fleet": {"uplink-bps": [-1, 5]}}, "fleet.uplink-bps: (-1, 5) is not a range"),
        ({"fleet": {"uplink-bps": 5}}, "fleet.uplink-bps: 5 is not a range"),
        ({"fleet": {"downlink-bps": -2}}, "fleet.downlink-bps: -2 is not allowed"),
        ({"fleet": {"erasure": 1.0}}, "fleet.erasure: 1.0 is not allowed"),
        ({"fleet": {"law": "wifi"}}, "fleet.law: 'wifi' is not known"),
        ({"partition": {"kind": "label"}}, "partition.kind: 'label' is not known"),
        ({"partition": {"clients": 0}}, "partition.clients: 0 is not allowed"),
        ({"problem": {"dataset": "digit"}}, "did you mean 'digits'?"),
        ({"problem": {"features": {"dim": 3}}}, "problem.features.dim: there is no such key"),
        ({"problem": {"features": 3}}, "problem.features: 3"),
        ({"seeds": 0}, "seeds: 0 is not allowed"),
        ({"seeds": [1, 1]}, "seeds: [1, 1] is not allowed"),
        ({"name": 3}, "name: 3 is not a name"),
        ({"methods": {}}, "methods: is missing"),
        (
            {"methods": {"sclf": {}}},
            "methods.sclf.method: 'sclf' is not known; did you mean 'scfl'?",
        ),
        ({"methods": {"scfl": 3}}, "methods.scfl: 3 is a value"),
        ({"methods": {"scfl": {"noise": -1}}}, "methods.scfl.noise: -1 is not allowed"),
        (
            {"methods": {"scfl": {"noise": {"sigma": -1}}}},
            "methods.scfl.noise.sigma: -1 is not allowed",
        ),
        (
            {"methods": {"scfl": {"coded-row": 5}}},
            "methods.scfl.coded-row: there is no such key; did you mean 'coded-rows'?",
        ),
        (
            {"methods": {"scfl": {"batches": {"subset": 5}}}},
            "methods.scfl.batches.subset: there is no such key; did you mean 'subsets'?",
        ),
        (
            {"methods": {"scfl": {"learning-rate": {"factor": 0.5}}}},
            "methods.scfl.learning-rate.start: is missing",
        ),
        ({"methods": {"scfl": {"layout": {"a": 1}}}}, "methods.scfl.layout: {'a': 1} is a table"),
        ({"defaults": {"drop-fraction": 0.1}}, "defaults.drop-fraction: no method here takes it"),
    ],
)
def test_what_is_wrong_is_said(changes: dict[str, Any], sentence: str) -> None:
    assert any(sentence in problem for problem in problems_of(changes)), problems_of(changes)


def test_everything_wrong_is_said_at_once() -> None:
    said = problems_of(
        {
            "clok": 1,
            "clock": {"rounds": 0, "evaluate-every": 0},
            "fleet": {"erasure": 2},
            "methods": {"scfl": {"noise": -1, "coded-rows": 0}, "fedavg": {"x": 1}},
        }
    )
    assert len(said) == 7


def test_overrides_win_and_keep_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    overrides = [
        "clock.rounds=9",
        "methods.scfl.noise.sigma=0.1",
        "name=other",
        "fleet.erasure=0.2",
    ]
    study = load_study_config(path, overrides)
    assert study.clock.rounds == 9
    assert study.name == "other"
    assert study.fleet.erasure == 0.2
    method = study.methods["scfl"]
    assert isinstance(method, scfl.SCFL)
    assert method.noise == scfl.Noise(0.1, labels=True)


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("clock.rounds", "write --set table.key=value"),
        ("=5", "write --set table.key=value"),
        ("clock.round=5", "did you mean 'rounds'?"),
        ("methods.fedavg.learning-rate=1", "the file has no [methods.fedavg]"),
    ],
)
def test_overrides_that_name_nothing_are_refused(
    tmp_path: Path, override: str, sentence: str
) -> None:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    with pytest.raises(ConfigError) as error:
        load_study_config(path, [override])
    assert sentence in str(error.value)


def test_files_that_cannot_be_read_are_explained(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        load_study_config(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("a = = 1")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load_study_config(tmp_path / "bad.toml")
    (tmp_path / "latin.toml").write_bytes(b"name = '\xe9'")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_study_config(tmp_path / "latin.toml")
