"""A training on a network leaves a study's folder: the report reads it, and compares several."""

from __future__ import annotations

import io
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import scfl
from scfl.core.parameter import build
from scfl.errors import ParameterError, RunError
from scfl.methods.batches import Batches
from scfl.methods.protocol import Method
from scfl.privacy.budget import Budget
from scfl.report.html import write_report
from scfl.report.live import describe_progress, draw_network
from scfl.runtime.network.config import NetworkConfig, NetworkSection
from scfl.runtime.network.wire import Gradient, Message
from scfl.study.network import Progress, read_network, record_network
from scfl.study.records import load_clients, load_ledger, load_study
from scfl.study.sections import FleetSection
from tests.runtime.network.scripted import Script, make_small_fleet, make_small_problem, start

PROBLEM = make_small_problem()
METHODS: dict[str, Method] = {
    "scfl": scfl.SCFL(batches=Batches(subsets=3), coded_rows=40, noise=0.1, deadline_s=20.0),
    "fedavg": scfl.FedAvg(batches=Batches(subsets=3)),
}


def train(out: Path, label: str) -> tuple[NetworkConfig, Script]:
    section = NetworkSection(str(out), clients=4, rounds=12, dtype="float64", evaluate_every=3)
    config = NetworkConfig(section, METHODS[label])
    terms = replace(config.terms, fleet=make_small_fleet(PROBLEM))
    late = lambda number, client: 25.0 if (number, client) == (4, 2) else 1.0  # noqa: E731
    script = start(PROBLEM, terms, config.state, delay=late)
    script.join("0", "1", "2", "3")
    return config, script


def test_two_trainings_share_a_folder_and_a_report(tmp_path: Path) -> None:
    for label in METHODS:
        config, script = train(tmp_path, label)
        script.run(until=lambda script=script: bool(script.session.book.rows))
        Progress()(config, script.session)
        told = read_network(tmp_path)
        assert told is not None
        assert told["status"] == "running"
        script.run()
        record_network(config, script.session, None)
    told = read_network(tmp_path)
    assert told is not None
    assert told["status"] == "complete"
    assert "round 12 of 12" in describe_progress(told)

    study = load_study(tmp_path)
    assert [run.label for run in study.runs] == ["scfl", "fedavg"]
    assert study.manifest.clock == "wall"
    scfl_run, fedavg = study.runs
    assert scfl_run.loss is not None
    assert 0 < scfl_run.loss < scfl_run.trace.loss[0]
    assert scfl_run.coded_rows == 40
    assert np.isnan(fedavg.trace.loss).all()  # nothing to measure it on, and no number made up
    ledger = load_ledger(scfl_run)
    assert ledger.status.reshape(12, 4)[4].tolist() == [0, 0, 1, 0]
    assert ledger.bytes_up.sum() == 12 * 4 * 6 * 2 * 8
    assert ledger.weight_lost.reshape(12, 4)[4, 2] > 0
    clients = load_clients(scfl_run)
    assert [client.name for client in clients] == [f"client {index}" for index in range(4)]
    assert clients[0].coded_upload_bytes == 40 * 8 * 8
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "wall time" in page
    assert "virtual" not in page.lower()


def test_refused_answers_and_what_happened_are_in_the_report(tmp_path: Path) -> None:
    config, script = train(tmp_path, "scfl")

    def tamper(key: str, message: Message) -> list[Message]:
        broken = key == "1" and isinstance(message, Gradient) and 3 <= message.round < 7
        return [replace(message, array=message.array[:1])] if broken else [message]  # type: ignore[arg-type, attr-defined]

    script.tamper = tamper
    script.run(until=lambda: len(script.session.book.rows) == 9)
    Progress()(config, script.session)
    running = read_network(tmp_path)
    assert running is not None
    assert [client["refused"] for client in running["clients"]] == [0, 4, 0, 0]
    script.run()
    record_network(config, script.session, None)
    run = load_study(tmp_path).runs[0]
    assert [(one.client, one.times) for one in run.refused if one.why != "stale"] == [
        ("client 1", 4)
    ]
    page = write_report(tmp_path).read_text(encoding="utf-8")
    said = "Answers that were refused: client 1, wrong shape 1 x 6, 2 x 6 was asked for (4 times)."
    assert said in page
    assert "training begins with 4 clients" in page
    assert "client 1: an answer does not count" in page


def test_the_measured_fleet_is_one_that_a_study_reads(tmp_path: Path) -> None:
    config, script = train(tmp_path, "scfl")
    script.session.limit = replace(config, network=replace(config.network, most_gradients=5)).limit
    script.run()
    record_network(config, script.session, None)
    table = tomllib.loads((tmp_path / "fleet.toml").read_text(encoding="utf-8"))
    read = build(FleetSection, table["fleet"]).draw(4, 0)
    measured = script.session.fleet
    assert measured is not None
    for name in ("macs_per_s", "uplink_bps", "downlink_bps", "server_macs_per_s"):
        assert np.allclose(getattr(read, name), getattr(measured, name), rtol=1e-5)
    with pytest.raises(ParameterError, match="4 machines for 5 clients"):
        build(FleetSection, table["fleet"]).draw(5, 0)
    # Its budget was spent first, and that is no failure.
    told = read_network(tmp_path)
    assert told is not None
    assert (told["status"], told["round"]) == ("complete", 5)
    assert "budget of 5 gradients" in told["reason"]


def test_what_was_learned_before_a_failure_is_kept_and_the_failure_told(tmp_path: Path) -> None:
    config, script = train(tmp_path, "scfl")
    script.run(until=lambda: len(script.session.book.rows) == 5)
    for key in "0123":
        script.session.leave(key, script.now)
    with pytest.raises(RunError, match="no client was there") as raised:
        script.run()
    record_network(config, script.session, str(raised.value))
    told = read_network(tmp_path)
    assert told is not None
    assert told["status"] == "failed"
    assert "no client was there" in told["reason"]
    with np.load(tmp_path / "runs/scfl/model.npz") as kept:
        assert np.isfinite(kept["model"]).all()
    assert load_study(tmp_path).runs[0].reason == told["reason"]


def test_what_was_spent_is_in_the_record_while_it_runs_and_afterwards(tmp_path: Path) -> None:
    config, _ = train(tmp_path, "scfl")
    budget = Budget(epsilon=1.0, delta=1e-5, row_norm=2.0, gradient_norm=0.5, gradient_noise=20.0)
    method = scfl.SCFL(
        batches=Batches(subsets=3),
        coded_rows=40,
        deadline_s=20.0,
        learning_rate=0.01,
        make_up=False,
    )
    config = replace(config, method=method, privacy=budget)
    terms = replace(config.terms, fleet=make_small_fleet(PROBLEM))
    script = start(PROBLEM, terms, tmp_path / "private", delay=lambda r, c: 1.0)
    script.session.limit = replace(config, network=replace(config.network, most_epsilon=1.2)).limit
    script.join("0", "1", "2", "3")
    script.run(until=lambda: bool(script.session.book.rows))
    Progress()(config, script.session)
    running = read_network(tmp_path)
    assert running is not None
    script.run()
    record_network(config, script.session, None)
    told = read_network(tmp_path)
    assert told is not None
    assert told["status"] == "complete"
    assert 1.0 < running["epsilon"] < told["epsilon"] <= 1.2
    assert "1.2 is spent, and one round more would exceed it" in told["reason"]
    assert 0 < told["round"] < 12
    assert (tmp_path / "runs/scfl/model.npz").exists()
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(draw_network(told))
    assert f"privacy spent: epsilon {told['epsilon']:.4g} at delta 1e-05" in console.export_text()
    run = load_study(tmp_path).runs[0]
    assert run.privacy["epsilon"] == told["epsilon"]
    assert run.privacy["coded_epsilon"] == pytest.approx(1.0)
    assert run.privacy["delta"] == 1e-5
    assert script.session.plan is not None
    assert script.session.plan.code is not None
    assert run.privacy["noise_sigma"] == script.session.plan.code.noise.sigma
    assert run.privacy["mi_bits"] is None  # the paper's number was not asked for
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert f"epsilon {told['epsilon']:.4g} at delta 1e-05 holds for any one row" in page


def test_a_failure_before_the_first_client_leaves_no_model(tmp_path: Path) -> None:
    config = NetworkConfig(NetworkSection(str(tmp_path), 4, 12), METHODS["scfl"])
    record_network(config, None, "the port is taken")
    told = read_network(tmp_path)
    assert told is not None
    assert (told["status"], told["reason"]) == ("failed", "the port is taken")
    assert not list(tmp_path.rglob("model.npz"))
