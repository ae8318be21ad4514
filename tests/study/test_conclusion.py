"""The sentences at the head of a report, true in every case."""

from __future__ import annotations

import math

import pytest

from scfl.study.conclusion import conclude
from scfl.study.records import Study
from scfl.study.summary import summarise
from tests.invented_study import Past, climbs, invent_study

INF = math.inf


def sentences(study: Study, target: float | None = 0.9) -> list[str]:
    return list(conclude(summarise(study, target=target)))


def test_each_clock_has_its_own_winner() -> None:
    study = invent_study({"scfl": climbs(40, setup_s=110), "fedavg": climbs(120)})
    assert sentences(study) == [
        (
            "With the upload and encoding counted, fedavg is first: accuracy 0.90 after 120 s; "
            "scfl after 150 s."
        ),
        (
            "With the setup left out, as the paper does, scfl is first: accuracy 0.90 after 40 s, "
            "3.0 times sooner than fedavg (120 s)."
        ),
        "This is one seed; another may tell a different story.",
    ]


def test_a_lead_in_some_seeds_only_is_said() -> None:
    study = invent_study({"a": climbs(10, 20, 90), "fedavg": climbs(40, 40, 40)})
    assert sentences(study) == [
        (
            "On the virtual clock, a is first: accuracy 0.90 after 20 s, 2.0 times sooner than "
            "fedavg (40 s), ahead in 2 of 3 seeds."
        ),
        "No method here has a setup, so it makes no difference whether setup time is counted.",
        "Times are medians over 3 seeds.",
    ]


def test_first_in_the_median_but_behind_in_pairs() -> None:
    study = invent_study({"a": climbs(30, 30, 30), "fedavg": climbs(10, 35, 36)})
    (first, *_) = sentences(study)
    assert "a is first: accuracy 0.90 after 30 s, 1.2 times sooner than fedavg (35 s)" in first
    study = invent_study({"a": climbs(50, 50, 50), "fedavg": climbs(51, 51, 60)})
    (first, *_) = sentences(study)
    assert "a is first: accuracy 0.90 after 50 s, though seed by seed about level with" in first
    study = invent_study({"a": climbs(20, 50, 200), "fedavg": climbs(10, 51, 60)})
    (first, *_) = sentences(study)
    assert "though seed by seed behind fedavg; fedavg after 51 s" in first


def test_times_that_read_the_same_are_a_tie() -> None:
    study = invent_study({"a": climbs(20.1), "b": climbs(20.2), "c": climbs(50)})
    assert sentences(study)[0] == (
        "On the virtual clock, a and b are first together: accuracy 0.90 after 20 s; c after 50 s."
    )


def test_a_target_met_untrained_takes_no_time() -> None:
    study = invent_study({"a": [Past([0, 10], [0.95, 0.95])], "fedavg": climbs(50)})
    assert "a is first: accuracy 0.90 from the start; fedavg after 50 s" in sentences(study)[0]


def test_nobody_gets_there() -> None:
    study = invent_study({"a": climbs(INF, INF, 20), "fedavg": climbs(INF, INF, INF)})
    assert sentences(study)[0] == (
        "On the virtual clock, no method reaches accuracy 0.90 in the median over 3 seeds; "
        "a comes nearest and ends at 0.500; a gets there with 1 of 3 seeds."
    )


def test_some_seeds_only() -> None:
    study = invent_study(
        {"a": climbs(20, 30, INF), "fedavg": climbs(60, 80, INF), "b": climbs(INF, INF, 90)}
    )
    assert sentences(study)[0] == (
        "On the virtual clock, a (with 2 of 3 seeds) is first: accuracy 0.90 after 30 s, "
        "2.8 times sooner than fedavg (80 s, with 2 of 3 seeds); "
        "b reaches it with only 1 of 3 seeds."
    )


def test_the_reference_itself_never_gets_there() -> None:
    study = invent_study({"a": climbs(20), "fedavg": climbs(INF)})
    assert sentences(study)[0] == (
        "On the virtual clock, a is first: accuracy 0.90 after 20 s; fedavg does not reach it."
    )


def test_one_method_alone() -> None:
    assert sentences(invent_study({"a": climbs(20)}))[0] == (
        "On the virtual clock, a reaches accuracy 0.90 after 20 s; "
        "there is no other method to compare it with."
    )
    assert sentences(invent_study({"a": climbs(INF)}))[0] == (
        "On the virtual clock, a does not reach accuracy 0.90; it ends at 0.500."
    )


def test_a_crowd_is_summed_up() -> None:
    study = invent_study(
        {f"m{place}": climbs(20.0 + 10 * place) for place in range(7)}
        | {f"n{place}": climbs(INF) for place in range(5)}
    )
    (first, *_) = sentences(study)
    assert first.endswith("; 2 more methods later; 5 others do not reach it.")
    assert "m0 is first: accuracy 0.90 after 20 s, 4.0 times sooner than m6 (80 s); m1" in first


@pytest.mark.parametrize(
    ("study", "expected"),
    [
        (invent_study({}), "No run is finished yet, so there is nothing to compare."),
        (
            invent_study({"a": [Past([0, 1], [0.1, 0.9], diverged=True)]}),
            "Every run diverged, so no method can be compared; see the reasons given for each run.",
        ),
    ],
)
def test_nothing_to_compare(study: Study, expected: str) -> None:
    assert sentences(study, None) == [expected]


def test_a_regression_speaks_of_loss() -> None:
    study = invent_study(
        {"a": [Past([0, 10], [0.5, 0.1])], "b": [Past([0, 30], [0.5, 0.12])]}, task="regression"
    )
    assert sentences(study, 0.2)[0] == (
        "On the virtual clock, a is first: loss 0.2 after 10 s, 3.0 times sooner than b (30 s)."
    )
    assert "a comes nearest and ends at 0.100" in sentences(study, 0.05)[0]
