"""A ledger adds up to the same totals in pieces and in bins, and sorts clients by speed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from scfl.errors import OutputError
from scfl.study import participation
from scfl.study.participation import Participation, add_up_ledger, order_by_speed
from scfl.study.records import ABSENT, ARRIVED, Run, load_ledger, load_study
from tests.fabricated_study import fabricate_study


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return load_study(fabricate_study(tmp_path, rounds=45, seeds=[0])).of("scfl")[0]


def test_totals_are_those_of_the_entries(run: Run) -> None:
    part = add_up_ledger(run, 20)
    ledger = load_ledger(run)
    for client in range(20):
        own = ledger.client == client
        counts = [int((ledger.status[own] == status).sum()) for status in range(4)]
        assert part.status_rounds[client].tolist() == counts
        assert part.weight[client] == pytest.approx(ledger.weight[own].sum())
        assert part.weight_lost[client] == pytest.approx(ledger.weight_lost[own].sum())
        assert part.bytes_up[client] == ledger.bytes_up[own].sum()
        assert part.bytes_down[client] == ledger.bytes_down[own].sum()
        assert part.mean_delay_s[client] == pytest.approx(np.nanmean(ledger.delay_s[own]))
    assert part.asked.tolist() == [45] * 20
    lost, given = ledger.weight_lost.sum(), ledger.weight.sum()
    assert part.share_lost == pytest.approx(lost / (lost + given))
    assert part.round_s == pytest.approx(np.median(np.diff(np.unique(ledger.closed_s))))


def test_a_short_run_has_a_bin_per_round(run: Run) -> None:
    part = add_up_ledger(run, 20)
    ledger = load_ledger(run)
    assert part.counts.shape == (20, 45, 4)
    assert part.first_round.tolist() == list(range(1, 47))
    np.testing.assert_array_equal(
        part.counts.argmax(axis=2), ledger.status.reshape(45, 20).T.astype(int)
    )


def test_bins_cover_every_round_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = add_up_ledger(run, 20)
    monkeypatch.setattr(participation, "_MOST_BINS", 7)
    binned = add_up_ledger(run, 20)
    assert binned.counts.shape == (20, 7, 4)
    assert (binned.first_round[0], binned.first_round[-1]) == (1, 46)
    for place in range(7):
        rounds = slice(binned.first_round[place] - 1, binned.first_round[place + 1] - 1)
        np.testing.assert_array_equal(binned.counts[:, place], exact.counts[:, rounds].sum(axis=1))
    np.testing.assert_array_equal(binned.status_rounds, exact.status_rounds)


def test_a_client_that_left_is_absent_from_then_on(run: Run) -> None:
    part = add_up_ledger(run, 20)
    assert part.status_rounds[3, ABSENT] == 45 - 45 // 2
    assert part.status_rounds[:, ABSENT].sum() == part.status_rounds[3, ABSENT]
    assert part.share_arrived[3] == pytest.approx(part.status_rounds[3, ARRIVED] / 45)


def test_an_entry_of_a_client_that_does_not_exist_is_refused(run: Run) -> None:
    with pytest.raises(OutputError, match=r"ledger\.parquet has rounds or clients"):
        add_up_ledger(run, 19)


def test_a_ledger_without_entries_is_a_run_without_questions(run: Run) -> None:
    path = run.folder / "ledger.parquet"
    pq.write_table(pq.read_table(path).slice(0, 0), path)
    part = add_up_ledger(run, 20)
    assert not part.asked.any()
    assert np.isnan(part.share_lost)
    assert part.round_s is None
    assert add_up_ledger(replace(run, rounds=0), 20).counts.shape == (20, 1, 4)


def with_delays(part: Participation, *delays: float) -> Participation:
    return replace(part, mean_delay_s=np.array(delays), weight=np.zeros(len(delays)))


def test_the_fastest_come_first_and_the_silent_last(run: Run) -> None:
    part = add_up_ledger(run, 20)
    one = with_delays(part, 3.0, np.nan, 1.0, 2.0)
    assert order_by_speed([one]).tolist() == [2, 3, 0, 1]
    # Relative delays are averaged: the second method's long rounds do not outvote the first.
    other = with_delays(part, 300.0, np.nan, 200.0, 100.0)
    third = with_delays(part, 0.3, np.nan, 0.1, 0.2)
    assert order_by_speed([one, other, third]).tolist() == [2, 3, 0, 1]
    assert order_by_speed([other]).tolist() == [3, 2, 0, 1]
    # Who is far behind in one method is slow, however close the others are.
    spared = with_delays(part, 1.01, 1.02, 1.03, 1.04)
    unspared = with_delays(part, 9.0, 1.0, 1.1, 1.2)
    assert order_by_speed([spared, unspared]).tolist() == [1, 2, 3, 0]
