"""A made-up output folder that obeys the record contract, small, realistic and quick to write.

Delays, arrivals and learning curves are invented here without the package, so that the reading
side is tested against the contract and not against the writer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

STATUSES = ("arrived", "late", "absent", "not-asked")
MODEL_BYTES = 17_600


@dataclass(frozen=True)
class Entry:
    """One configured method: how it waits, how fast it learns and where it ends."""

    label: str
    method: str
    wait: str = "deadline"
    coded_rows: int = 0
    sigma: float = 0.0
    rate: float = 0.03
    end: float = 0.94


THREE = (
    Entry("scfl", "scfl", coded_rows=300, rate=0.035, end=0.938),
    Entry("fedavg", "fedavg", wait="all", rate=0.035, end=0.941),
    Entry("fl-pma-0.2", "fl-pma", wait="fastest", rate=0.03, end=0.90),
)


def fabricate_study(
    out: Path,
    *,
    entries: Sequence[Entry] = THREE,
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    clients: int = 20,
    rounds: int = 150,
    task: str = "classification",
    status: str = "complete",
    diverged: Sequence[tuple[str, int]] = (("fl-pma-0.2", 3),),
    leaves: int | None = 3,
    names: Sequence[str] = (),
) -> Path:
    """Write the folder and return it. ``leaves`` is a client that goes for good half-way."""
    rows = [70 + 5 * (client % 3) for client in range(clients)]
    out.mkdir(parents=True, exist_ok=True)
    summaries = []
    for entry in entries:
        for seed in seeds:
            world = _World(seed, clients, rounds, tuple(rows), leaves, tuple(names))
            explodes = (entry.label, seed) in diverged
            summaries.append(_write_run(out, entry, world, task, explodes))
    _write_json(out / "results.json", summaries)
    _write_json(out / "manifest.json", _manifest(rows, seeds, entries, task, status))
    return out


@dataclass(frozen=True)
class _World:
    seed: int
    clients: int
    rounds: int
    rows: tuple[int, ...]
    leaves: int | None
    names: tuple[str, ...]

    def rng(self, purpose: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, purpose])

    @property
    def upload_s(self) -> np.ndarray:
        return 0.35 / self.rng(1).uniform(0.3, 1.0, self.clients)

    @property
    def compute_s(self) -> np.ndarray:
        return 0.4 / self.rng(2).uniform(0.1, 1.0, self.clients)

    def name(self, client: int) -> str:
        return self.names[client] if self.names else f"client {client}"


def _write_run(out: Path, entry: Entry, world: _World, task: str, explodes: bool) -> dict[str, Any]:
    key = f"{world.seed:012x}"
    folder = f"runs/{entry.label}-seed{world.seed}-{key}"
    (out / folder).mkdir(parents=True, exist_ok=True)
    rounds = max(4, world.rounds // 4) if explodes else world.rounds
    ledger, lasts = _ledger(entry, world, rounds)
    setup = entry.coded_rows > 0
    code_bytes = entry.coded_rows * 240
    encoding = entry.coded_rows * 0.08 * world.compute_s if setup else np.zeros(world.clients)
    upload = code_bytes / 8_000 * world.upload_s
    setup_s = float((encoding + upload).max())
    trace = _trace(entry, world, ledger, lasts, explodes=explodes, task=task)
    accuracy = None if task == "regression" else float(trace["accuracy"][-1])
    end = {name: _finite(trace[name][-1]) for name in trace if name.startswith(("loss", "acc"))}
    summary = {
        "label": entry.label,
        "method": entry.method,
        "parameters": {"learning_rate": 2.0, "sigma": entry.sigma},
        "seed": world.seed,
        "rounds": rounds,
        "setup_counted": True,
        "setup_time_s": setup_s,
        "training_time_s": float(lasts.sum()),
        "virtual_time_s": float(lasts.sum()) + setup_s,
        "learned": "average" if entry.method == "scfl" else "last",
        **end,
        "accuracy": accuracy,
        "diverged": explodes,
        "reason": "The learning rate 2 is too high for the fastest 80% of clients; try 1 or less."
        if explodes
        else None,
        "bytes_up": int(trace["bytes_up"][-1]) + code_bytes * world.clients,
        "bytes_down": int(trace["bytes_down"][-1]),
        "setup_bytes_up": code_bytes * world.clients,
        "coded_rows": entry.coded_rows or None,
        "deadline_s": 4.0 if entry.wait == "deadline" else None,
        "coding": "gram-shortcut" if setup else None,
        "privacy": _privacy(entry, rounds),
        "key": key,
        "folder": folder,
    }
    records = [
        {
            "client": client,
            "name": world.name(client),
            "rows": world.rows[client],
            "load": 8 + client % 3,
            "arrival_probability": 0.9,
            "encoding_s": float(encoding[client]),
            "coded_upload_s": float(upload[client]),
            "coded_upload_bytes": code_bytes,
        }
        for client in range(world.clients)
    ]
    _write_json(out / folder / "result.json", {"summary": summary, "clients": records})
    pq.write_table(pa.table(trace), out / folder / "trace.parquet")
    pq.write_table(pa.table(ledger), out / folder / "ledger.parquet")
    return summary


def _privacy(entry: Entry, rounds: int) -> dict[str, Any]:
    return {
        "statements": [f"All clients sent {rounds} gradients: not covered by any guarantee."],
        "noise_sigma": entry.sigma if entry.coded_rows else None,
        "mi_bits": 2.0 if entry.coded_rows else None,
        "mi_bits_scale": 1.0 if entry.coded_rows else None,
        "coded_epsilon": None,
        "epsilon": None,
        "delta": None,
    }


def _ledger(entry: Entry, world: _World, rounds: int) -> tuple[dict[str, Any], np.ndarray]:
    shape = (rounds, world.clients)
    attempts = world.rng(3).geometric(0.9, (world.rounds, world.clients))[:rounds]
    delay = 0.3 + world.compute_s + attempts * world.upload_s
    gone = np.zeros(shape, dtype=bool)
    if world.leaves is not None and entry.wait != "all":
        gone[rounds // 2 :, world.leaves] = True
    asked = np.full(shape, entry.wait != "server")
    if entry.wait == "deadline":
        lasts = np.full(rounds, np.quantile(delay, 0.88))
    elif entry.wait == "server":
        lasts = np.full(rounds, 1.5)
    else:
        kept = world.clients if entry.wait == "all" else math.ceil(0.8 * world.clients)
        lasts = np.sort(np.where(gone, np.inf, delay), axis=1)[:, kept - 1]
    arrived = asked & ~gone & (delay <= lasts[:, None])
    status = np.where(arrived, 0, np.where(~asked, 3, np.where(gone, 2, 1))).astype(np.int8)
    weight = 1.0 + 0.1 * (np.arange(world.clients) % 3)[None, :] * np.ones(shape)
    up = np.where(status < 2, MODEL_BYTES, 0)
    ledger = {
        "round": np.repeat(np.arange(1, rounds + 1, dtype=np.int32), world.clients),
        "client": np.tile(np.arange(world.clients, dtype=np.int32), rounds),
        "status": pa.DictionaryArray.from_arrays(status.ravel(), list(STATUSES)),
        "delay_s": np.where(asked & ~gone, delay, np.nan).ravel(),
        "closed_s": np.repeat(np.cumsum(lasts), world.clients),
        "weight": np.where(arrived, weight, 0.0).ravel(),
        "weight_lost": np.where(asked & ~arrived, weight, 0.0).ravel(),
        "bytes_up": up.ravel().astype(np.int64),
        "bytes_down": np.where(asked, MODEL_BYTES, 0).ravel().astype(np.int64),
    }
    return ledger, lasts


def _trace(
    entry: Entry,
    world: _World,
    ledger: dict[str, Any],
    lasts: np.ndarray,
    *,
    task: str,
    explodes: bool,
) -> dict[str, np.ndarray]:
    rounds = len(lasts)
    at = np.unique(np.concatenate([[0], np.arange(5, rounds, 5), [rounds]]))
    clock = np.concatenate([[0.0], np.cumsum(lasts)])[at]
    jitter = 0.004 * world.rng(4).standard_normal() + 0.002 * world.rng(5).standard_normal(at.size)
    rise = 1 - np.exp(-entry.rate * 120 / max(world.rounds, 120) * at)
    last = 0.1 + (entry.end - 0.1) * rise + np.where(at > 0, jitter, 0.0)
    average = 0.1 + (entry.end - 0.105) * (rise**1.3) + np.where(at > 0, jitter / 2, 0.0)
    loss = {"last": 0.5 - 0.42 * (last - 0.1), "average": 0.5 - 0.42 * (average - 0.1)}
    if explodes:
        burst = np.exp(np.minimum(at * 0.6, 600))
        loss = {name: values * burst for name, values in loss.items()}
        loss["last"][-1] = np.inf
        loss["average"][-1] = np.inf
        last, average = np.minimum(last, 0.2), np.minimum(average, 0.2)
    learned = "average" if entry.method == "scfl" else "last"
    accuracy = {"last": last, "average": average}
    if task == "regression":
        accuracy = {name: np.full(at.size, np.nan) for name in accuracy}
    per_round = {
        name: np.concatenate(
            [[0], np.cumsum(ledger[name].reshape(rounds, world.clients).sum(axis=1))]
        )[at]
        for name in ("bytes_up", "bytes_down")
    }
    return {
        "round": at.astype(np.int32),
        "training_time_s": clock,
        "loss": loss[learned],
        "accuracy": accuracy[learned],
        "loss_last": loss["last"],
        "accuracy_last": accuracy["last"],
        "loss_average": loss["average"],
        "accuracy_average": accuracy["average"],
        **per_round,
    }


def _manifest(
    rows: list[int], seeds: Sequence[int], entries: Sequence[Entry], task: str, status: str
) -> dict[str, Any]:
    classes = [str(digit) for digit in range(10)] if task == "classification" else None
    shards = [[0] * 10 for _ in rows]
    for client, count in enumerate(rows):
        first = client * 10 // len(rows)
        shards[client][first] = count - count // 4
        shards[client][(first + 1) % 10] = count // 4
    return {
        "format": 1,
        "name": "fabricated",
        "status": status,
        "scfl_version": "0.1.0",
        "python": "3.11.7",
        "packages": {"numpy": "2.4.6", "scipy": "1.17.0", "scfl": "0.1.0"},
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "config_hash": "9f86d081884c7d65",
        "config": {
            "problem": {"dataset": "digits", "random-features": 400},
            "partition": {"kind": "label-sorted"},
            "methods": [{"name": entry.method, "label": entry.label} for entry in entries],
            "seeds": list(seeds),
        },
        "seeds": list(seeds),
        "wall_time_s": 21.4 if status == "complete" else None,
        "problem": {
            "name": "digits, 400 random Fourier features",
            "clients": len(rows),
            "rows": sum(rows),
            "features": 400,
            "outputs": 10 if task == "classification" else 1,
            "test_rows": 297,
            "task": task,
            "client_rows": rows,
            "classes": classes,
            "client_classes": shards if task == "classification" else None,
            "optimum_loss": 0.138,
            "optimum_accuracy": 0.953 if task == "classification" else None,
        },
    }


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, allow_nan=False), encoding="utf-8")
