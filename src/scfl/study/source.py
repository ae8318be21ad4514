"""Where a study's problem comes from: its source, found once, and the problem made from it."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import scfl.data.dataset as datasets
from scfl.data.catalogue import known_sets
from scfl.data.install import identify_set, load_set
from scfl.data.problem import Problem, make_problem
from scfl.data.row_norm import bound_rows
from scfl.data.table import load_table
from scfl.errors import ConfigError, DataError
from scfl.study.config import StudyConfig
from scfl.study.sections import PartitionSection, ProblemSection


@dataclass(frozen=True)
class ProblemSource:
    """All that a problem is made from; equal sources give equal problems."""

    section: ProblemSection
    partition: PartitionSection
    path: Path | None
    digest: str
    row_norm: float | None = None

    def describe(self) -> dict[str, Any]:
        """What identifies the problem, wherever its file lies."""
        section = {**asdict(self.section), "dataset": self.digest or self.section.dataset}
        bound = {} if self.row_norm is None else {"row_norm": self.row_norm}
        return {"problem": section, "partition": asdict(self.partition), **bound}


def locate_problem(study: StudyConfig) -> ProblemSource:
    """Say where a study's problem comes from; a file or a set is named by its content."""
    section, row_norm = study.problem, study.privacy.row_norm
    if section.dataset in ("digits", "regression"):
        return ProblemSource(section, study.partition, None, "", row_norm)
    if section.dataset in known_sets():
        return ProblemSource(section, study.partition, *identify_set(section.dataset), row_norm)
    path = study.folder / section.dataset
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror}); give the path of a file "
            "relative to the configuration"
        ) from None
    return ProblemSource(section, study.partition, path.resolve(), digest, row_norm)


def load_problem(study: StudyConfig) -> Problem:
    """The problem of a study; what is wrong with a data file is said with the file's name."""
    name = study.problem.dataset
    try:
        return build_problem(locate_problem(study))
    except DataError as error:
        issues = []
        for issue in error.problems:
            known = not Path(name).suffix or name in str(issue)
            where = f"{name}: {issue.where}" if issue.where else name
            issues.append(issue.within("problem") if known else replace(issue, where=where))
        raise ConfigError(issues) from None


@lru_cache(maxsize=2)
def build_problem(source: ProblemSource) -> Problem:
    """Load rows, map features and deal out clients, once per process."""
    section, rule = source.section, source.partition.rule
    if source.path is not None and section.dataset in known_sets():
        dataset = load_set(source.path)
    elif source.path is not None and section.table is not None:
        dataset = load_table(source.path, section.table, section.task)
    elif source.path is not None:
        dataset = datasets.load_arrays(source.path)
    elif section.dataset == "digits":
        dataset = datasets.load_digits()
    else:
        dataset = datasets.make_regression(
            section.rows, section.columns, section.outputs, section.random_state
        )
    clients = dataset.clients if rule is None else rule
    if clients is None:
        raise DataError(
            "partition.kind = 'column' needs to know whose each row is: name the column in "
            f"problem.table.client, or add an array 'clients' to the .npz file ({section.dataset})"
        )
    problem = make_problem(
        dataset.X,
        dataset.y,
        clients=clients,
        features=section.features,
        scaling=dataset.scaling,
        test=dataset.test,
        test_fraction=section.test_fraction if dataset.test is None else 0.0,
        task=section.task,
        intercept=section.intercept,
        dtype=section.dtype,
        random_state=section.random_state,
        name=source.path.stem if source.path else section.dataset,
    )
    return problem if source.row_norm is None else bound_rows(problem, source.row_norm)
