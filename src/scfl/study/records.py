"""What a study left in its folder, as typed values: the reading side of the record contract.

    OUT/manifest.json              what was run, on which problem, by which versions
    OUT/results.json               one summary per run
    OUT/<run folder>/result.json   the same summary, and what each client cost and released
    OUT/<run folder>/trace.parquet     one row per evaluation
    OUT/<run folder>/ledger.parquet    one row per round and client

Traces are small and read at once; a ledger can be large (clients times rounds) and is read in
pieces when somebody asks. An interrupted folder is read as far as its runs are finished.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from scfl.errors import OutputError
from scfl.study.fields import Fields

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FORMAT = 1
STATUSES = ("arrived", "late", "absent", "not-asked")
ARRIVED, LATE, ABSENT, NOT_ASKED = range(len(STATUSES))

_LEDGER_BATCH_ROWS = 1_000_000


@dataclass(frozen=True)
class ProblemFacts:
    """The problem that all runs share, as far as a reader needs it."""

    name: str
    clients: int
    rows: int
    features: int
    outputs: int
    test_rows: int
    task: Literal["classification", "regression"]
    client_rows: tuple[int, ...]
    classes: tuple[str, ...] | None
    client_classes: tuple[tuple[int, ...], ...] | None
    optimum_loss: float | None
    optimum_accuracy: float | None


@dataclass(frozen=True)
class Manifest:
    """How a study was made."""

    name: str
    status: str
    scfl_version: str
    python: str
    packages: Mapping[str, str]
    commit: str | None
    config_hash: str
    config: Mapping[str, Any]
    seeds: tuple[int, ...]
    wall_time_s: float | None
    problem: ProblemFacts
    clock: Literal["virtual", "wall"] = "virtual"


@dataclass(frozen=True, eq=False)
class Trace:
    """One entry per evaluation, the untrained model (round 0) first; times exclude the setup."""

    round: Ints
    training_time_s: Floats
    loss: Floats
    accuracy: Floats
    loss_last: Floats
    accuracy_last: Floats
    loss_average: Floats
    accuracy_average: Floats
    bytes_up: Floats
    bytes_down: Floats


@dataclass(frozen=True, eq=False)
class Ledger:
    """One entry per round and client; ``status`` counts in the order of ``STATUSES``."""

    round: Ints
    client: Ints
    status: NDArray[np.int8]
    delay_s: Floats
    closed_s: Floats
    weight: Floats
    weight_lost: Floats
    bytes_up: Floats
    bytes_down: Floats


@dataclass(frozen=True)
class ClientRecord:
    """What one client was asked for, and what that cost before training."""

    client: int
    name: str
    rows: int
    load: int
    arrival_probability: float | None
    encoding_s: float
    coded_upload_s: float
    coded_upload_bytes: float


@dataclass(frozen=True)
class Refused:
    """Answers of a client on a network that did not count."""

    client: str
    why: str
    times: int


@dataclass(frozen=True, eq=False)
class Run:
    """One method with one seed. Numbers that were not finite are None.

    ``smallest_eigenvalue`` is that of the curvature that training descends, as the coded data told
    it beforehand; None without a make-up term, which alone can take curvature away.
    """

    label: str
    method: str
    parameters: Mapping[str, Any]
    seed: int
    rounds: int
    setup_counted: bool
    setup_time_s: float
    training_time_s: float
    learned: str
    loss: float | None
    accuracy: float | None
    loss_last: float | None
    accuracy_last: float | None
    loss_average: float | None
    accuracy_average: float | None
    diverged: bool
    reason: str | None
    bytes_up: float
    bytes_down: float
    setup_bytes_up: float
    coded_rows: int | None
    deadline_s: float | None
    coding: str | None
    folder: Path
    trace: Trace
    privacy: Mapping[str, Any] = field(default_factory=dict)
    smallest_eigenvalue: float | None = None
    warning: str | None = None
    rate_at_edge: bool = False
    refused: tuple[Refused, ...] = ()
    events: tuple[tuple[float, str], ...] = ()

    @property
    def statements(self) -> tuple[str, ...]:
        """What clients released and what is guaranteed of it, in words."""
        return tuple(self.privacy.get("statements", ()))


@dataclass(frozen=True, eq=False)
class Study:
    """A folder of results: how it was made, and every run that is finished."""

    folder: Path
    manifest: Manifest
    runs: tuple[Run, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels in the order configured."""
        return tuple(dict.fromkeys(run.label for run in self.runs))

    @property
    def methods(self) -> dict[str, str]:
        """Each label's method, in the order configured."""
        return {run.label: run.method for run in self.runs}

    def of(self, label: str) -> tuple[Run, ...]:
        """The runs of one label, seed by seed."""
        return tuple(run for run in self.runs if run.label == label)


def load_study(out: Path) -> Study:
    """Read a finished or interrupted output folder."""
    out = Path(out)
    if not (out / "manifest.json").is_file():
        raise OutputError(
            f"{out} holds no manifest.json, so it is not a folder of results; "
            "give the folder that `scfl run` or `scfl demo` wrote"
        )
    manifest = _manifest(_read_object(out / "manifest.json"))
    summaries = _summaries(out)
    return Study(out, manifest, tuple(_run(out, fields) for fields in summaries))


def load_clients(run: Run) -> tuple[ClientRecord, ...]:
    """What each client cost and released in one run."""
    return tuple(
        _client(fields) for fields in _read_object(run.folder / "result.json").items("clients")
    )


def load_ledger(run: Run) -> Ledger:
    """The whole ledger of one run; ``scan_ledger`` reads a long one in pieces."""
    pieces = list(scan_ledger(run))
    names = Ledger.__dataclass_fields__
    return Ledger(**{name: np.concatenate([getattr(p, name) for p in pieces]) for name in names})


def scan_ledger(run: Run, batch_rows: int = _LEDGER_BATCH_ROWS) -> Iterator[Ledger]:
    """The ledger of one run in pieces, so that memory does not grow with rounds; at least one."""
    path = run.folder / "ledger.parquet"
    file = _open_parquet(path, tuple(Ledger.__dataclass_fields__))
    empty = True
    for batch in file.iter_batches(batch_rows, columns=list(Ledger.__dataclass_fields__)):
        empty = False
        yield _ledger(path, batch)
    if empty:
        nothing = np.zeros(0)
        none = np.zeros(0, dtype=np.int64)
        yield Ledger(none, none, none.astype(np.int8), *([nothing] * 6))


def _summaries(out: Path) -> list[Fields]:
    path = out / "results.json"
    if path.is_file():
        values = _read_json(path)
        if not isinstance(values, list):
            raise OutputError(f"{path} does not hold a list of runs; run the study again")
        return [Fields(f"{path}, entry {index}", value) for index, value in enumerate(values)]
    # Interrupted before the list was written: take every run that is finished.
    whole = (path for path in out.glob("runs/*/result.json") if path.parent.name[0] != ".")
    found = [_read_object(path).item("summary") for path in whole]
    return sorted(found, key=lambda run: (run.text("label"), run.whole("seed")))


def _manifest(fields: Fields) -> Manifest:
    found = fields.whole("format")
    if found != FORMAT:
        raise OutputError(
            f"{fields.where} has format {found}; this scfl reads format {FORMAT}, "
            "so read it with the version that wrote it"
        )
    problem = fields.item("problem")
    classes = problem.optional_sequence("classes")
    shares = problem.optional_sequence("client_classes")
    return Manifest(
        name=fields.text("name"),
        # Trainings on a network are measured; simulations, older ones too, say nothing of it.
        clock="wall" if fields.values.get("clock") == "wall" else "virtual",
        status=fields.text("status"),
        scfl_version=fields.text("scfl_version"),
        python=fields.text("python"),
        packages={str(key): str(value) for key, value in fields.mapping("packages").items()},
        commit=fields.optional_text("commit"),
        config_hash=fields.text("config_hash"),
        config=fields.mapping("config"),
        seeds=tuple(int(seed) for seed in fields.sequence("seeds")),
        wall_time_s=fields.optional_number("wall_time_s"),
        problem=ProblemFacts(
            name=problem.text("name"),
            clients=problem.whole("clients"),
            rows=problem.whole("rows"),
            features=problem.whole("features"),
            outputs=problem.whole("outputs"),
            test_rows=problem.whole("test_rows"),
            task="classification" if problem.text("task") == "classification" else "regression",
            client_rows=tuple(int(rows) for rows in problem.sequence("client_rows")),
            classes=None if classes is None else tuple(str(name) for name in classes),
            client_classes=None
            if shares is None
            else tuple(tuple(int(count) for count in row) for row in shares),
            optimum_loss=problem.optional_number("optimum_loss"),
            optimum_accuracy=problem.optional_number("optimum_accuracy"),
        ),
    )


def _run(out: Path, fields: Fields) -> Run:
    folder = out / fields.text("folder")
    # What was seen before the first round.
    seen = fields.optional_item("stability")
    return Run(
        label=fields.text("label"),
        method=fields.text("method"),
        parameters=fields.mapping("parameters"),
        seed=fields.whole("seed"),
        rounds=fields.whole("rounds"),
        setup_counted=fields.flag("setup_counted"),
        setup_time_s=fields.number("setup_time_s"),
        training_time_s=fields.number("training_time_s"),
        learned=fields.text("learned"),
        loss=fields.optional_number("loss"),
        accuracy=fields.optional_number("accuracy"),
        loss_last=fields.optional_number("loss_last"),
        accuracy_last=fields.optional_number("accuracy_last"),
        loss_average=fields.optional_number("loss_average"),
        accuracy_average=fields.optional_number("accuracy_average"),
        diverged=fields.flag("diverged"),
        reason=fields.optional_text("reason"),
        bytes_up=fields.number("bytes_up"),
        bytes_down=fields.number("bytes_down"),
        setup_bytes_up=fields.number("setup_bytes_up"),
        coded_rows=fields.optional_whole("coded_rows"),
        deadline_s=fields.optional_number("deadline_s"),
        coding=fields.optional_text("coding"),
        folder=folder,
        trace=_trace(folder / "trace.parquet"),
        privacy=fields.optional_mapping("privacy"),
        smallest_eigenvalue=None if seen is None else seen.optional_number("smallest_eigenvalue"),
        warning=None if seen is None else seen.optional_text("warning"),
        rate_at_edge=_rate_at_edge(fields),
        refused=tuple(
            Refused(one.text("client"), one.text("why"), one.whole("times"))
            for one in fields.optional_items("refusals")
        ),
        events=tuple(
            (one.number("at"), one.text("sentence")) for one in fields.optional_items("events")
        ),
    )


def _rate_at_edge(fields: Fields) -> bool:
    """Whether the search stopped with its best rate at an end of those that it tried."""
    search = fields.optional_item("search")
    return search is not None and search.flag("at_edge")


def _client(fields: Fields) -> ClientRecord:
    return ClientRecord(
        client=fields.whole("client"),
        name=fields.text("name"),
        rows=fields.whole("rows"),
        load=fields.whole("load"),
        arrival_probability=fields.optional_number("arrival_probability"),
        encoding_s=fields.number("encoding_s"),
        coded_upload_s=fields.number("coded_upload_s"),
        coded_upload_bytes=fields.number("coded_upload_bytes"),
    )


def _trace(path: Path) -> Trace:
    names = tuple(Trace.__dataclass_fields__)
    table = _open_parquet(path, names).read(columns=list(names))
    columns = {name: table.column(name).to_numpy().astype(np.float64) for name in names}
    return Trace(round=columns.pop("round").astype(np.int64), **columns)


def _ledger(path: Path, batch: pa.RecordBatch) -> Ledger:
    status = batch.column("status")
    if not isinstance(status, pa.DictionaryArray):
        status = status.dictionary_encode()
    words = status.dictionary.to_pylist()
    unknown = sorted(set(words) - set(STATUSES))
    if unknown:
        raise OutputError(f"{path} has the status {unknown[0]!r}; known are {', '.join(STATUSES)}")
    codes = np.array([STATUSES.index(word) for word in words], dtype=np.int8)
    numbers = {
        name: batch.column(name).to_numpy(zero_copy_only=False).astype(np.float64)
        for name in Ledger.__dataclass_fields__
        if name != "status"
    }
    return Ledger(
        round=numbers.pop("round").astype(np.int64),
        client=numbers.pop("client").astype(np.int64),
        status=codes[status.indices.to_numpy(zero_copy_only=False)],
        **numbers,
    )


def _open_parquet(path: Path, needed: tuple[str, ...]) -> pq.ParquetFile:
    try:
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        trouble = "is missing" if not path.is_file() else f"cannot be read ({error})"
        raise OutputError(f"{path} {trouble}; run the study again to write it anew") from error
    missing = [name for name in needed if name not in file.schema_arrow.names]
    if missing:
        raise OutputError(f"{path} has no column {missing[0]!r}; run the study again")
    return file


def _read_object(path: Path) -> Fields:
    return Fields(str(path), _read_json(path))


def _read_json(path: Path) -> Any:
    try:
        return cast(Any, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        trouble = "is missing" if not path.is_file() else f"cannot be read ({error})"
        raise OutputError(f"{path} {trouble}; run the study again to write it anew") from error
