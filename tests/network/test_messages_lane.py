"""The messages lane on a federation of its own, as nothing else there lasts as long."""

from __future__ import annotations

from pathlib import Path

from tests.network.federation import federation, read_record
from tests.network.trainings import configure, finish, start

PRIVACY = """
[privacy]
epsilon = 5000.0
delta = 1e-5
row-norm = 2.0
gradient-norm = 10.0
gradient-noise = 0.01
"""


def test_the_messages_lane_trains_too(tmp_path: Path) -> None:
    """Each message is a process: two clients and two rounds are enough to see that it works.

    Their rows and gradients are held to a budget that hides little, so that something is learned.
    """
    with federation(tmp_path, nodes=2) as running:
        path, out = configure(running, "messages", lane="messages", clients=2, rounds=2)
        text = path.read_text(encoding="utf-8").replace("deadline-s = 5.0", "deadline-s = 60.0")
        path.write_text(text + PRIVACY, encoding="utf-8")
        code, said = finish(start(running, path), 400)
        assert code == 0, said
        told = read_record(out)
        assert told["round"] == 2
        assert sum(client["arrived"] for client in told["clients"]) >= 2
        assert told["loss"] < 0.5
        assert told["epsilon"] > 0
        assert "each row's own cut to norm 10" in told["released"]
