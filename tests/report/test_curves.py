"""Curves over seeds: what is known at each time, and that they agree with the table's times."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scfl.report.curves import curve_over_seeds, lost_runs
from scfl.study.summary import summarise
from tests.invented_study import Past, invent_study


def test_a_curve_starts_where_the_setup_ends() -> None:
    study = invent_study({"a": [Past([0, 10, 20], [0.1, 0.5, 0.9], setup_s=30)]})
    counted = curve_over_seeds(study.runs, "accuracy", "counted", 1)
    apart = curve_over_seeds(study.runs, "accuracy", "apart", 1)
    assert counted is not None
    assert apart is not None
    assert counted.times_s.tolist() == [30, 40, 50]
    assert apart.times_s.tolist() == [0, 10, 20]
    assert counted.median.tolist() == apart.median.tolist() == [0.1, 0.5, 0.9]
    assert (counted.start_s, counted.whole_s, counted.untrained) == (30, 50, 0.1)


def test_seeds_meet_on_one_clock() -> None:
    pasts = [
        Past([0, 10], [0.1, 0.5], setup_s=0),
        Past([0, 10], [0.1, 0.7], setup_s=10),
        Past([0, 10], [0.1, 0.9], setup_s=25),
    ]
    curve = curve_over_seeds(invent_study({"a": pasts}).runs, "accuracy", "counted", 3)
    assert curve is not None
    assert curve.times_s.tolist() == [0, 10, 20, 25, 35]
    # Nobody trains a model twice: who has ended keeps it, who has not started has none.
    assert curve.low.tolist() == [0.1, 0.1, 0.1, 0.1, 0.5]
    assert curve.median.tolist() == [0.1, 0.1, 0.5, 0.5, 0.7]
    assert curve.high.tolist() == [0.1, 0.5, 0.7, 0.7, 0.9]
    assert (curve.start_s, curve.whole_s) == (10, 20)


@given(
    st.lists(
        st.tuples(st.integers(1, 60), st.integers(0, 40), st.booleans()), min_size=1, max_size=13
    )
)
def test_the_median_meets_the_target_at_the_median_time(
    seeds: list[tuple[int, int, bool]],
) -> None:
    pasts = [
        Past([0, time, time + 7], [0.1, 0.8 if there else 0.3, 0.95 if there else 0.4], setup)
        for time, setup, there in seeds
    ]
    study = invent_study({"a": pasts})
    summary = summarise(study, target=0.8)
    curve = curve_over_seeds(study.runs, "accuracy", "counted", len(seeds))
    reach = summary.labels[0].reach
    assert curve is not None
    assert reach is not None
    met = curve.times_s[curve.median >= 0.8]
    times = sorted(reach["counted"].times_s.values())
    if len(times) % 2:
        assert (met[0] if met.size else np.inf) == reach["counted"].spread.median
    else:
        # Between the two middle seeds: both medians average them, one in time, one in score.
        low, high = times[len(times) // 2 - 1 : len(times) // 2 + 1]
        assert low <= (met[0] if met.size else np.inf) <= high


def test_runs_that_diverged_are_left_out_and_shown_apart() -> None:
    lost = Past([0, 10, 20], [0.5, 3.0, np.inf], diverged=True)
    study = invent_study({"a": [lost, Past([0, 10], [0.5, 0.2])]}, task="regression")
    curve = curve_over_seeds(study.runs, "loss", "apart", 2)
    assert curve is not None
    assert curve.high.tolist() == [0.5, 0.2]
    (run,) = lost_runs(study.runs, "loss", "apart")
    assert run.values.tolist() == [0.5, 3.0]
    assert curve_over_seeds(study.runs[:1], "loss", "apart", 2) is None
    assert curve_over_seeds(study.runs, "accuracy", "apart", 2) is None


def test_long_traces_are_thinned_and_keep_their_ends() -> None:
    times = np.arange(1000.0)
    study = invent_study({"a": [Past(times.tolist(), np.linspace(0, 1, 1000).tolist())]})
    curve = curve_over_seeds(study.runs, "accuracy", "apart", 1, most_points=11)
    assert curve is not None
    assert curve.times_s.size == 11
    assert (curve.times_s[0], curve.times_s[-1]) == (0, 999)
