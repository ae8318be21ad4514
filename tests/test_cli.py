"""The command line as a person meets it: what it prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scfl import cli

SMALL = """
name = "small"
seeds = 2
[problem]
dataset = "regression"
rows = 60
columns = 3
[partition]
clients = 4
[clock]
rounds = 20
[methods.scfl]
coded-rows = 20
[methods.fedavg]
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def call(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr("sys.argv", ["scfl", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    code = end.value.code
    return 0 if code is None else int(code)


def test_run_writes_results_and_report(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "run", config) == 0
    out = config.parent / "runs" / "small"
    results = json.loads((out / "results.json").read_text())
    assert [(run["label"], run["seed"]) for run in results] == [
        ("scfl", 0),
        ("scfl", 1),
        ("fedavg", 0),
        ("fedavg", 1),
    ]
    assert "<html" in (out / "report.html").read_text()
    printed = capsys.readouterr().out
    assert "fedavg" in printed
    assert "report: runs/small/report.html" in printed


def test_run_takes_overrides(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["run", config, "--set", "clock.rounds=3", "--set", "seeds=1", "--out", "here"]
    assert call(monkeypatch, *words) == 0
    results = json.loads((config.parent / "here" / "results.json").read_text())
    assert [run["rounds"] for run in results] == [3, 3]


def test_a_mistake_ends_with_2_and_one_sentence_each(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(SMALL.replace("rounds = 20", "round = 20\nevaluate-every = 0"))
    assert call(monkeypatch, "run", config) == 2
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert said.err.splitlines()[0].startswith("error: clock.round: there is no such key")
    assert not (config.parent / "runs").exists()


@pytest.mark.parametrize(
    "words", [["run"], ["run", "none.toml"], ["rnu"], ["demo", "--jobs", "0"], ["report", "none"]]
)
def test_wrong_words_end_with_2(
    config: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    assert call(monkeypatch, *words) == 2


def test_divergence_ends_with_1_and_says_why(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(SMALL.replace("[methods.fedavg]", "[methods.fedavg]\nlearning-rate = 1e4"))
    assert call(monkeypatch, "run", config, "--out", "out") == 1
    said = capsys.readouterr()
    assert "2 of 4 runs diverged; fedavg, seed 0: the model exploded" in said.err
    results = json.loads((config.parent / "out" / "results.json").read_text())
    assert [run["diverged"] for run in results] == [False, False, True, True]
    assert "learning rate 10000 is too large" in results[2]["reason"]
    assert (config.parent / "out" / "report.html").exists()


def test_check_says_what_will_be_run_and_runs_nothing(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "check", config) == 0
    assert "is sound: 4 runs (2 methods, 2 seeds), 4 clients with" in capsys.readouterr().out
    assert not (config.parent / "runs").exists()


def test_check_reports_all_problems(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(SMALL.replace("clients = 4", "clients = 4000"))
    assert call(monkeypatch, "check", config) == 2
    assert "4000 clients for" in capsys.readouterr().err


def test_report_is_written_again(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call(monkeypatch, "run", config, "--out", "out")
    page = config.parent / "out" / "report.html"
    before = page.read_bytes()
    page.unlink()
    assert call(monkeypatch, "report", "out") == 0
    assert page.read_bytes() == before


def test_an_interrupt_says_how_to_go_on(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.study, "run_study", interrupt)
    assert call(monkeypatch, "run", config) == 130
    assert "give the same command again" in capsys.readouterr().err


def test_the_demo_shows_its_configuration(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "demo", "--show-config") == 0
    (config.parent / "mine.toml").write_text(capsys.readouterr().out)
    assert call(monkeypatch, "check", "mine.toml") == 0


def test_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, "--version") == 0
    assert capsys.readouterr().out.startswith("scfl ")


def test_a_make_up_term_without_a_limit_is_warned_of_before_anything_runs(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check and run warn, with the eigenvalue, the bias and a way out; run goes on all the same."""
    noisy = ("--set", "methods.scfl.noise=5.0", "--set", "methods.scfl.learning-rate=0.01")
    assert call(monkeypatch, "check", config, *noisy) == 0
    warning = capsys.readouterr().err
    assert warning.startswith("warning: methods.scfl: ")
    for words in (
        "n sigma^2 = 100",
        "smallest eigenvalue",
        'make-up = "safe" or false',
        "e-fold in about",
    ):
        assert words in warning
    assert call(monkeypatch, "run", config, *noisy) == 0
    assert "smallest eigenvalue" in capsys.readouterr().err
    out = config.parent / "runs" / "small"
    results = json.loads((out / "results.json").read_text())
    seen = [run["stability"] for run in results]
    assert seen[2] is seen[3] is None
    assert seen[0]["smallest_eigenvalue"] < 0
    assert seen[0]["at_least"] <= seen[0]["smallest_eigenvalue"]
    assert seen[0]["noise_bias"] == pytest.approx(100)
    page = (out / "report.html").read_text()
    assert "before its first round (2 runs)" in page
    assert page.count("smallest eigenvalue") == 1


def test_a_sound_study_is_not_warned_of(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "check", config, "--set", "methods.scfl.make-up=false") == 0
    assert call(monkeypatch, "check", config, "--set", "methods.scfl.noise=0.01") == 0
    assert capsys.readouterr().err == ""
