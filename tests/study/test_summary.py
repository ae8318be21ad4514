"""Medians, bands, targets and speed-ups over seeds, where some never get there."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scfl.errors import ParameterError
from scfl.study.records import load_study
from scfl.study.summary import LabelSummary, Summary, spread_over_seeds, summarise, time_to_target
from tests.fabricated_study import fabricate_study
from tests.invented_study import Past, climbs, invent_study

INF = math.inf


def of(summary: Summary, label: str) -> LabelSummary:
    return next(each for each in summary.labels if each.label == label)


def test_few_seeds_have_their_extremes_as_band() -> None:
    spread = spread_over_seeds([5.0, 1.0, 2.0], 3)
    assert spread is not None
    assert (spread.median, spread.low, spread.high, spread.count) == (2.0, 1.0, 5.0, 3)


@given(st.lists(st.floats(-100, 100), min_size=10, max_size=30))
def test_many_seeds_have_quantiles_as_band(values: list[float]) -> None:
    spread = spread_over_seeds(values, len(values))
    assert spread is not None
    expected = np.quantile(values, [0.05, 0.5, 0.95])
    assert [spread.low, spread.median, spread.high] == pytest.approx(expected.tolist(), abs=1e-9)


@pytest.mark.parametrize(
    ("values", "median", "high"),
    [([1.0, 3.0, INF], 3.0, INF), ([1.0, INF, INF], INF, INF), ([1.0, INF], INF, INF)],
)
def test_never_is_later_than_any_time(values: list[float], median: float, high: float) -> None:
    spread = spread_over_seeds(values, 3)
    assert spread is not None
    assert (spread.median, spread.high) == (median, high)


def test_quantiles_are_defined_beside_infinity() -> None:
    spread = spread_over_seeds([*map(float, range(10)), INF, INF], 12)
    assert spread is not None
    assert (spread.median, spread.high) == (5.5, INF)
    assert math.isfinite(spread.low)


def test_the_time_is_that_of_the_first_evaluation_that_meets_the_target() -> None:
    run = invent_study({"a": [Past([0, 10, 20, 30], [0.1, 0.79, 0.8, 0.7], setup_s=7)]}).runs[0]
    target = summarise(invent_study({"a": climbs(1)}), target=0.8).target
    assert target is not None
    assert time_to_target(run, target, "apart") == 20
    assert time_to_target(run, target, "counted") == 27


def test_a_loss_has_to_get_below_the_target() -> None:
    study = invent_study({"a": [Past([0, 10, 20], [0.5, 0.2, 0.1])]}, task="regression")
    target = summarise(study, target=0.2).target
    assert target is not None
    assert target.metric == "loss"
    assert time_to_target(study.runs[0], target, "apart") == 10


def test_a_diverged_run_never_gets_there_and_has_no_final_score() -> None:
    lost = Past([0, 10], [0.1, 0.95], diverged=True)
    summary = summarise(invent_study({"a": [lost, *climbs(20, 30)]}), target=0.85)
    (label,) = summary.labels
    assert label.reach is not None
    assert label.reach["apart"].times_s == {0: INF, 1: 20, 2: 30}
    assert label.reach["apart"].reached == 2
    assert label.diverged == 1
    assert label.accuracy is not None
    assert (label.accuracy.median, label.accuracy.count) == (0.9, 2)


def test_speed_ups_are_paired_by_seed() -> None:
    study = invent_study({"fedavg": climbs(10, 40, 30), "a": climbs(20, 10, 10)})
    speed = of(summarise(study, target=0.9), "a").speed_up["apart"]
    assert speed is not None
    # 0.5, 4 and 3; the ratio of the medians would be 3 as well, its band would not.
    assert (speed.spread.median, speed.spread.low, speed.spread.high) == (3.0, 0.5, 4.0)
    assert (speed.ahead, speed.pairs) == (2, 3)


def test_pairs_that_both_fail_say_nothing_and_lone_failures_do() -> None:
    study = invent_study({"fedavg": climbs(10, INF, INF), "a": climbs(INF, 10, INF)})
    speed = of(summarise(study, target=0.9), "a").speed_up["apart"]
    assert speed is not None
    assert (speed.spread.low, speed.spread.high, speed.pairs, speed.ahead) == (0, INF, 2, 1)
    both = invent_study({"fedavg": climbs(INF), "a": climbs(INF)})
    assert of(summarise(both, target=0.9), "a").speed_up["apart"] is None


def test_a_draw_is_no_lead() -> None:
    study = invent_study({"fedavg": climbs(10, 20), "a": climbs(10, 10)})
    speed = of(summarise(study, target=0.9), "a").speed_up["apart"]
    assert speed is not None
    assert (speed.ahead, speed.pairs, speed.spread.low) == (1, 2, 1.0)


def test_the_setup_counts_on_one_clock_only() -> None:
    study = invent_study({"fedavg": climbs(40), "a": climbs(10, setup_s=70)})
    summary = summarise(study, target=0.9)
    medians = {
        clock: speed.spread.median
        for clock, speed in of(summary, "a").speed_up.items()
        if speed is not None
    }
    assert medians == {"counted": 0.5, "apart": 4.0}
    assert summary.has_setup
    assert not summarise(invent_study({"a": climbs(1)})).has_setup


def test_the_reference_is_fedavg_whatever_its_label() -> None:
    study = invent_study(
        {"slow": climbs(90), "plain": climbs(20)}, methods={"plain": "fedavg", "slow": "x"}
    )
    assert summarise(study).reference == "plain"
    assert summarise(study, reference="slow").reference == "slow"


def test_without_fedavg_the_reference_is_the_slowest_that_gets_there() -> None:
    study = invent_study({"a": climbs(20), "b": climbs(90), "never": climbs(INF)})
    assert summarise(study, target=0.9).reference == "b"
    nobody = invent_study({"a": climbs(INF), "b": climbs(INF)})
    assert summarise(nobody, target=0.9).reference == "a"


def test_wrong_questions_are_answered_all_at_once() -> None:
    study = invent_study({"fedavg": climbs(10)})
    with pytest.raises(ParameterError) as caught:
        summarise(study, target=90, reference="fedavgg")
    assert "did you mean 'fedavg'" in str(caught.value)
    assert "target: 90" in str(caught.value)


@given(st.lists(st.floats(0.02, 1.0), min_size=1, max_size=5))
def test_the_target_is_97_percent_of_the_best_rounded_down(finals: list[float]) -> None:
    study = invent_study({f"m{i}": climbs(10, final=final) for i, final in enumerate(finals)})
    target = summarise(study).target
    assert target is not None
    assert 0.97 * max(finals) - 0.01 - 1e-9 < target.value <= 0.97 * max(finals) + 1e-9
    assert target.value * 100 == pytest.approx(round(target.value * 100))


def test_a_perfect_score_asks_for_97_percent() -> None:
    target = summarise(invent_study({"a": climbs(10, final=1.0)})).target
    assert target is not None
    assert (target.value, target.wording) == (0.97, "accuracy 0.97")


@given(st.floats(1e-6, 1e3), st.floats(1.0, 1e3))
def test_a_loss_target_is_97_percent_of_the_way_and_the_best_meets_it(
    best: float, factor: float
) -> None:
    start = best * factor
    study = invent_study({"a": [Past([0, 10], [start, best])]}, task="regression")
    summary = summarise(study)
    assert summary.target is not None
    exact = best + 0.03 * (start - best)
    assert exact * (1 - 1e-9) <= summary.target.value <= exact * 1.011
    reach = summary.labels[0].reach
    assert reach is not None
    assert reach["apart"].reached == 1


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_study_can_name_its_own_target(task: str) -> None:
    study = invent_study({"a": climbs(10)}, task=task)
    asked = {"report": {"target-accuracy": 0.42, "target-loss": 0.37}}
    study = replace(study, manifest=replace(study.manifest, config=asked))
    target = summarise(study).target
    assert target is not None
    assert (target.value, target.rule) == (
        0.42 if task == "classification" else 0.37,
        "as asked for",
    )
    overruled = summarise(study, target=0.5).target
    assert overruled is not None
    assert overruled.value == 0.5


def test_nothing_to_compare_is_no_error() -> None:
    assert summarise(invent_study({})).target is None
    lost = summarise(invent_study({"a": [Past([0, 1], [0.1, 0.2], diverged=True)]}))
    assert lost.target is None
    assert lost.labels[0].accuracy is None
    assert lost.labels[0].reach is None


def test_a_folder_is_summarised(tmp_path: Path) -> None:
    study = load_study(fabricate_study(tmp_path))
    summary = summarise(study)
    assert [label.label for label in summary.labels] == ["scfl", "fedavg", "fl-pma-0.2"]
    assert [label.diverged for label in summary.labels] == [0, 0, 1]
    assert summary.band_name == "median and the smallest to largest of 5 seeds"
    scfl = of(summary, "scfl")
    assert scfl.reach is not None
    for run in study.of("scfl"):
        both = [scfl.reach[clock].times_s[run.seed] for clock in ("counted", "apart")]
        assert both[0] - both[1] == pytest.approx(run.setup_time_s)
