"""`scfl data` as a person meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scfl.data.catalogue import MNIST
from tests.data.tiny_sets import Arrays, draw_images, known_as, write_idx_files
from tests.test_cli import call

STUDY = """
[problem]
dataset = "mnist"
[partition]
clients = 3
[clock]
rounds = 2
[methods.fedavg]
"""


@pytest.fixture
def arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Arrays:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCFL_CACHE", "cache")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("PATH", "/nowhere")
    (tmp_path / "study.toml").write_text(STUDY)
    images = draw_images((4, 5))
    known_as(MNIST, images, monkeypatch)
    return images


def test_a_study_says_how_to_get_its_data_and_runs_once_it_is_there(
    arrays: Arrays, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["check"], ["run"], ["plan"]):
        assert call(monkeypatch, *words, "study.toml") == 2
        said = capsys.readouterr().err
        assert said == (
            "error: problem.dataset: mnist is not on this machine; "
            "get it with: scfl data get mnist\n"
        )
    write_idx_files(Path("files"), arrays)
    assert call(monkeypatch, "data", "get", "mnist", "--from", "files") == 0
    assert "mnist is here, verified" in capsys.readouterr().out
    assert call(monkeypatch, "check", "study.toml") == 0
    assert "3 clients with 30 rows of 20 features, 3 outputs" in capsys.readouterr().out
    assert call(monkeypatch, "run", "study.toml") == 0


def test_the_list_says_what_is_here(
    arrays: Arrays, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def here() -> dict[str, str]:
        assert call(monkeypatch, "data", "list", "--json") == 0
        return {row["name"]: row["here"] for row in json.loads(capsys.readouterr().out)}

    assert here()["mnist"] == "no"
    call(monkeypatch, "data", "get", "mnist", "--from", write_idx_files(Path("files"), arrays))
    capsys.readouterr()
    assert here()["mnist"] == "yes"
    assert here()["digits"] == "built in"
    assert call(monkeypatch, "data", "list") == 0
    assert "fashion-mnist" in capsys.readouterr().out


def test_check_finds_damage(
    arrays: Arrays, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "data", "check") == 0
    assert "no data set is here yet" in capsys.readouterr().out
    assert call(monkeypatch, "data", "check", "mnist") == 2
    assert "get it with: scfl data get mnist" in capsys.readouterr().err
    call(monkeypatch, "data", "get", "mnist", "--from", write_idx_files(Path("files"), arrays))
    assert call(monkeypatch, "data", "check") == 0
    assert "mnist: whole" in capsys.readouterr().out
    Path("cache/datasets/mnist/y.npy").write_bytes(b"damage")
    assert call(monkeypatch, "data", "check") == 2
    assert "get it again with: scfl data get mnist" in capsys.readouterr().err


def test_wrong_names_and_an_interrupt(
    arrays: Arrays, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "data", "get", "mnits") == 2
    assert "did you mean 'mnist'?" in capsys.readouterr().err
    assert call(monkeypatch, "data", "get", "digits") == 2
    assert "it is always here" in capsys.readouterr().err

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("scfl.cli.data.install_set", interrupt)
    assert call(monkeypatch, "data", "get", "mnist") == 130
    assert "give the same command again" in capsys.readouterr().err
