"""The real thing on loopback: a SuperLink, five SuperNodes, TLS, registered keys.

Run by `make test-network`, which installs Flower. One federation serves all tests, in order; each
test is bounded in time, and every process is ended by its id.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.network.federation import (
    Federation,
    federation,
    processes_of,
    read_record,
    wait_for,
    write_node_key,
)
from tests.network.trainings import configure, finish, start


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    with federation(tmp_path_factory.mktemp("federation")) as made:
        yield made


def here(out: Path, name: str) -> bool:
    return any(c["name"] == name and c["here"] for c in read_record(out).get("clients", []))


def test_one_training_with_everything_that_goes_wrong_on_the_way(running: Federation) -> None:
    """A client is killed and comes back, a node and the server are killed; strangers stay out.

    One training instead of four: starting Flower's processes is what takes the time.
    """
    path, out = configure(
        running, "stream", rounds=10**6, **{"checkpoint-every": 50, "evaluate-every": 1000}
    )
    # A node whose key nobody registered, one that knows no TLS, and one that trusts nobody here.
    write_node_key(running.folder / "node-stranger")
    running.start_node("stranger", 0, "stranger")
    running.start(
        "node-plain",
        "flower-supernode",
        *("--superlink", f"{running.host}:{running.port}", "--insecure"),
        *("--node-config", f'data="{running.folder / "share-0.npz"}" name="plain"'),
        *("--max-wait-time", "30"),
    )
    process = start(running, path)
    wait_for(
        lambda: process.poll() is not None or read_record(out).get("round", 0) >= 20,
        300,
        "round 20",
    )
    assert process.poll() is None, read_record(out)
    # The process that holds a client's rows; its SuperNode lives, and takes a while to notice.
    for pid, words in processes_of(running.mark("node-3")).items():
        if "clientapp" in words:
            os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not here(out, "client 3"), 60, "hearing of the killed client")
    # A whole node; whoever runs one has it started again until Flower lets it in.
    running.end("node-4")
    wait_for(lambda: not here(out, "client 4"), 60, "hearing of the killed node")
    running.start_node(4, 4, again=True)
    # The server's own process: the one that runs the ServerApp, and no other.
    apps = processes_of(running.mark("superlink"))
    server = [pid for pid, words in apps.items() if "serverapp" in words]
    for pid in server:
        os.kill(pid, signal.SIGKILL)
    assert server, apps
    code, said = finish(process)
    assert code == 1, said
    assert "without a word" in said or "ended as finished:failed" in said, said
    reached = read_record(out)["round"]

    rounds = reached + 500
    code, said = finish(start(running, path, f"network.rounds={rounds}", "network.enrol-s=200.0"))
    assert code == 0, said
    told = read_record(out)
    assert told["status"] == "complete"
    assert told["round"] == rounds
    assert told["accuracy"] > 0.9
    assert any("training goes on after round" in e["sentence"] for e in told["events"])
    for node in range(5):
        assert any(f"client {node} is here" in event["sentence"] for event in told["events"])
    assert (out / "report.html").exists()
    with np.load(out / "runs/scfl/model.npz") as model:
        assert np.isfinite(model["model"]).all()
    for name in ("node-stranger", "node-plain"):
        log = running.log(name).lower()
        assert "describe" not in log
        assert any(word in log for word in ("error", "denied", "unauthenticated", "fail")), log
        running.end(name)


def test_a_mistake_in_the_configuration_never_gets_to_flower(running: Federation) -> None:
    path, _ = configure(running, "mistake")
    code, said = finish(start(running, path, "method.lerning-rate=1"), 60)
    assert code == 2
    assert "method.lerning-rate: there is no such key; did you mean 'learning-rate'?" in said


def test_a_run_that_cannot_be_done_ends_with_one_and_names_the_client(running: Federation) -> None:
    """Flower itself ends with 0 after this submission.

    The node that was killed before is back by now, with the key that it had: the run ends at once
    only because all five have come.
    """
    with np.load(running.folder / "share-2.npz") as whole:
        X, y = whole["X"].copy(), whole["y"]
    X[7, 7] = np.nan
    np.savez(running.folder / "share-broken.npz", X=X, y=y)
    running.end("node-2")
    running.register("broken")
    running.start_node("broken", "broken", "client 2")
    path, out = configure(running, "broken")
    code, said = finish(start(running, path), 300)
    assert code == 1, said
    assert "client 2" in said
    assert "missing or not finite" in said
    assert "Traceback" not in said
    assert not (out / "runs/scfl/model.npz").exists()
    told = read_record(out)
    assert told["status"] == "failed"
    assert told["seconds"] < 240
    assert "client 4" in {client["name"] for client in told["clients"]}
