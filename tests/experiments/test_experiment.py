"""Experiments from a configuration to pictures, page and verdicts, on the smallest of studies."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from scfl import cli
from scfl.errors import ConfigError, ParameterError
from scfl.experiments.catalogue import list_experiments, load_experiment, read_experiment
from scfl.experiments.outcome import collect_outcome, compare_with_expected, expect
from scfl.experiments.overview import write_overview
from scfl.experiments.run import Finished, run_experiment
from scfl.experiments.sentences import SENTENCES
from scfl.study.summary import Spread

CURVES = """
seeds = 2
[figure]
kind = "curves"
title = "Small curves"
targets = [0.3, 0.999]
[problem]
dataset = "digits"
features = { dimensions = 40, width = 1.5 }
[partition]
clients = 5
[clock]
horizon-s = 3
evaluate-every-s = 0.5
setup = "apart"
[search]
learning-rates = [1.0, 4.0]
[defaults]
learned = "last"
batches = { subsets = 4 }
[methods.scfl]
[methods."fl-pma(0)"]
method = "fedavg"
[methods."fl-pma(0.4)"]
method = "fl-pma"
drop-fraction = 0.4
[methods.one-shot]
[quick]
seeds = 1
leave-out = ["fl-pma(0.4)"]
[quick.problem.features]
dimensions = 20
"""

BUDGET = CURVES.replace(
    'kind = "curves"\ntitle = "Small curves"\ntargets = [0.3, 0.999]',
    'kind = "budget"\ntitle = "Small budgets"\nmi-bits = [0.01, 0.5]',
)


@pytest.fixture(scope="module")
def curves(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run_experiment(read_experiment(CURVES, name="small"), tmp_path_factory.mktemp("curves"))


@pytest.fixture(scope="module")
def budget(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run_experiment(read_experiment(BUDGET, name="tiny"), tmp_path_factory.mktemp("budget"))


def test_curves_leave_page_pictures_and_reports(curves: Finished) -> None:
    out = curves.page.parent
    assert sorted(path.name for path in out.iterdir()) == [
        "expected.json",
        "small-accuracy-apart.svg",
        "small-accuracy-counted.svg",
        "small-loss-apart.svg",
        "small-loss-counted.svg",
        "small.md",
        "studies",
        "timing.json",
    ]
    assert (out / "studies" / "no-noise" / "report.html").is_file()
    page = curves.page.read_text("utf-8")
    for picture in curves.pictures:
        assert f"({picture.name})" in page
    assert "2 seeds" in page
    assert "| scfl |" in page
    assert curves.surprises is None


def test_every_budget_is_a_study_with_the_noise_that_it_needs(budget: Finished) -> None:
    studies = budget.outcome.studies
    assert list(studies) == [None, 0.5, 0.01]
    assert studies[None].labels == ("scfl", "fl-pma(0)", "fl-pma(0.4)", "one-shot")
    assert studies[0.5].labels == studies[0.01].labels == ("scfl",)
    for bits, study in studies.items():
        if bits is not None:
            assert [run.privacy["mi_bits"] for run in study.runs] == pytest.approx([bits] * 2)
    sigmas = [studies[bits].runs[0].privacy["noise_sigma"] for bits in studies]
    assert sigmas == sorted(sigmas)
    page = budget.page.read_text("utf-8")
    assert "| 0.01 bits | scfl |" in page


def test_the_smallest_eigenvalue_stands_beside_the_noise(budget: Finished) -> None:
    """As the runs recorded it: no make-up term without noise, and more taken away with more."""
    numbers = {bits: labels[0] for bits, labels in budget.outcome.numbers.items()}
    recorded = [run.smallest_eigenvalue for run in budget.outcome.studies[0.01].of("scfl")]
    assert numbers[None].smallest_eigenvalue is None
    assert numbers[0.01].smallest_eigenvalue == pytest.approx(sum(recorded) / 2)
    assert numbers[0.01].smallest_eigenvalue < 0
    page = budget.page.read_text("utf-8")
    row = next(line for line in page.splitlines() if line.startswith("| 0.01 bits | scfl |"))
    assert f"| {numbers[0.01].smallest_eigenvalue:+.3g} |" in row
    assert "below 0 training has no limit" in page


def test_rates_are_searched_for_at_every_budget(budget: Finished) -> None:
    for study in budget.outcome.studies.values():
        found = json.loads((study.folder / "results.json").read_text("utf-8"))
        tried = [run["search"]["learning_rates"] for run in found if run["label"] == "scfl"]
        assert tried == [[1.0, 4.0]] * 2


def test_a_second_call_does_nothing_twice(curves: Finished) -> None:
    out = curves.page.parent
    traces = {path: path.stat().st_mtime_ns for path in out.rglob("trace.parquet")}
    page, took = curves.page.read_bytes(), (out / "timing.json").read_bytes()
    again = run_experiment(read_experiment(CURVES, name="small"), out, jobs=2)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("trace.parquet")} == traces
    assert (out / "timing.json").read_bytes() == took
    assert again.page.read_bytes() == page


def test_what_came_out_is_expected_of_the_next_run(curves: Finished) -> None:
    written = json.loads((curves.page.parent / "expected.json").read_text("utf-8"))["full"]
    assert compare_with_expected(curves.outcome, written) == []
    assert written["took"]["cpu_s"] > 0


def test_every_deviation_is_named(curves: Finished) -> None:
    wanted = expect(curves.outcome)
    number = wanted["numbers"]["scfl / accuracy"]
    number["value"] += 2 * number["within"]
    wanted["numbers"]["scfl / seconds to 0.999"]["value"] = 3.0
    wanted["numbers"]["gone / accuracy"] = number
    del wanted["numbers"]["optimum / accuracy"]
    wanted["verdicts"]["fedavg-slow / apart"] = "reproduced"
    said = "; ".join(compare_with_expected(curves.outcome, wanted))
    assert "gone / accuracy was not computed" in said
    assert "optimum / accuracy was not expected" in said
    assert "scfl / accuracy is 0." in said
    assert "scfl / seconds to 0.999 is never, expected 3" in said
    assert "fedavg-slow / apart: 'undecided', expected 'reproduced'" in said


def test_within_the_tolerance_nothing_is_said(curves: Finished) -> None:
    wanted = expect(curves.outcome)
    number = wanted["numbers"]["scfl / accuracy"]
    number["value"] += 0.9 * number["within"]
    assert compare_with_expected(curves.outcome, wanted) == []


def test_one_upload_counts_on_every_clock(curves: Finished) -> None:
    numbers = {each.label: each for each in curves.outcome.numbers[None]}
    one_shot = numbers["one-shot"]
    assert isinstance(one_shot.seconds[0.3], Spread)
    assert one_shot.seconds[0.3].median >= one_shot.setup_s > 0


def test_numbers_are_medians_of_the_runs(curves: Finished) -> None:
    study = curves.outcome.studies[None]
    outcome = collect_outcome(curves.outcome.experiment, curves.outcome.studies)
    for numbers in outcome.numbers[None]:
        runs = study.of(numbers.label)
        both = [run.accuracy for run in runs if run.accuracy is not None]
        assert numbers.accuracy.median == pytest.approx(sum(both) / 2)
        assert numbers.diverged == 0


def test_the_quick_edition_changes_what_it_says_and_nothing_else() -> None:
    full, quick = (read_experiment(CURVES, name="s", edition=each) for each in ("full", "quick"))
    before, after = full.levels[0].study, quick.levels[0].study
    assert len(after.seeds) == 1
    assert set(before.methods) - set(after.methods) == {"fl-pma(0.4)"}
    assert after.problem.features is not None
    assert (after.problem.features.dimensions, after.problem.features.width) == (20, 1.5)
    assert before.clock == after.clock
    with pytest.raises(ConfigError, match="has no quick version"):
        read_experiment(CURVES.partition("[quick]")[0], name="s", edition="quick")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('kind = "curves"', 'kind = "curve"', r"figure\.kind: 'curve' is not known; did you mean"),
        ("targets = [0.3, 0.999]", "", r"figure\.targets: is empty"),
        ("targets = [0.3, 0.999]", "targets = [30]", r"figure\.targets: 30 is not allowed"),
        ("title =", "titel =", r"figure\.titel: there is no such key; did you mean 'title'"),
        ("seeds = 2", "seeds = 0", "seeds: 0 is not allowed"),
    ],
)
def test_mistakes_get_a_sentence(old: str, new: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_experiment(CURVES.replace(old, new, 1), name="s")


def test_a_budget_needs_somebody_who_codes() -> None:
    text = BUDGET.replace("[methods.scfl]\n", "")
    with pytest.raises(ConfigError, match="name one that releases coded data"):
        read_experiment(text, name="s")


def test_every_experiment_that_ships_is_sound_in_both_editions() -> None:
    assert "figure-1-digits" in list_experiments()
    for name in list_experiments():
        for edition in ("full", "quick"):
            experiment = load_experiment(name, edition)  # type: ignore[arg-type]
            assert experiment.name == name
            assert experiment.figure.title
            assert experiment.levels[0].study.name == name
    with pytest.raises(ParameterError, match="did you mean 'figure-1-digits'"):
        load_experiment("figure-1-digit")


def call(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr("sys.argv", ["scfl", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return int(end.value.code or 0)


def test_the_command_runs_a_file_and_compares_it_with_what_is_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "config.toml").write_text(CURVES)
    words = ("figure", "mine/config.toml", "--quick", "--jobs", 1)
    assert call(monkeypatch, *words) == 0
    printed = capsys.readouterr().out
    assert "mine: 7 runs, and nobody has measured yet how long that takes" in printed
    assert "FL-PMA(0) converges slower" in printed
    assert "undecided" in printed
    assert "nothing was expected" in printed

    expected = json.loads(Path("runs/mine-quick/expected.json").read_text())
    (mine / "expected.json").write_text(json.dumps(expected))
    assert call(monkeypatch, *words) == 0
    printed = capsys.readouterr().out
    assert "CPU-minutes where it was measured" in printed
    assert "every number and verdict is as expected" in printed

    expected["quick"]["numbers"]["scfl / accuracy"]["value"] = 0.0
    (mine / "expected.json").write_text(json.dumps(expected))
    assert call(monkeypatch, *words) == 1
    assert "not everything is as expected: scfl / accuracy is" in capsys.readouterr().err


def test_the_command_lists_and_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, "figure", "--list") == 0
    assert "figure-1-digits" in capsys.readouterr().out
    assert call(monkeypatch, "figure") == 2
    assert "NAME: is missing; give one of" in capsys.readouterr().err
    assert call(monkeypatch, "figure", "figure-9") == 2
    assert "is no experiment" in capsys.readouterr().err
    assert call(monkeypatch, "figure", "none.toml") == 2
    assert "none.toml: cannot be read" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_overview_names_claims_by_experiments_and_both_clocks() -> None:
    experiment = read_experiment(
        CURVES,
        name="figure-0-small",
        expected={
            "verdicts": {
                "fedavg-slow / apart": "reproduced only where a before b to 0.9",
                "fedavg-slow / counted": "not reproduced",
                "dropping-ends-lower / apart": "reproduced",
                "dropping-ends-lower / counted": "reproduced",
            }
        },
    )
    lines = write_overview([experiment, read_experiment(CURVES, name="untold")]).splitlines()
    assert lines[0] == "| claim | `figure-0-small` |"
    found = {line.split(" | ")[0]: line.split(" | ")[1] for line in lines[2:] if line}
    assert found[f"| {SENTENCES['fedavg-slow']}"] == "partly (counted: not reproduced) |"
    assert found[f"| {SENTENCES['dropping-ends-lower']}"] == "reproduced |"
    assert len(found) == 2
    apart = write_overview([replace(experiment, name="speed-small"), experiment])
    assert apart.splitlines()[0] == "| claim | `figure-0-small` |"
    assert "\n\n| claim | `speed-small` |\n" in apart


def test_the_documentation_shows_what_is_expected() -> None:
    """Tables in the docs are generated; this is how they are kept from going stale."""
    docs = Path(__file__).parents[2] / "docs"
    text = (docs / "experiments.md").read_text("utf-8")
    shipped = [load_experiment(name) for name in list_experiments()]
    told = [each for each in shipped if each.expected is not None]
    shown = text.partition("<!-- overview -->\n")[2].partition("<!-- /overview -->")[0]
    assert shown == write_overview(shipped)
    for experiment in told:
        assert f"(experiments/{experiment.name}.md)" in text
        page = (docs / "experiments" / f"{experiment.name}.md").read_text("utf-8")
        assert experiment.expected is not None
        for verdict in experiment.expected["verdicts"].values():
            head, only, rest = verdict.partition(" where ")
            assert f"**{head}**{only}{rest}" in page
