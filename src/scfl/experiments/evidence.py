"""What recorded runs measured of the reasons why claims fail: an error floor, a limit that is lost.

Each function says it in a sentence, or nothing where the runs do not tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from scfl.experiments.levels import Currency, name_level
from scfl.study.records import Run, Study
from scfl.study.wording import count_words, list_words


def quote_floor(study: Study) -> str:
    """How far SCFL ended above the optimum, and the same rounds without a code."""
    problem, coded = study.manifest.problem, _runs_of(study, "scfl")
    rows = _median([run.coded_rows for run in coded])
    excess = _median_excess(coded, problem.optimum_loss)
    if rows is None or excess is None:
        return ""
    said = (
        f"Measured here, without noise: d/c is {problem.features:,}/{rows:,.0f}, and SCFL ends "
        f"with a loss {excess:.2g} above the optimum's"
    )
    without = _median_excess(_runs_of(study, "fl-ipw"), problem.optimum_loss)
    return f"{said}." if without is None else f"{said}, FL-IPW {without:.2g} above it."


def quote_limit(levels: Mapping[float | None, Study], currency: Currency = "printed") -> str:
    """Where SCFL's smallest eigenvalue turns negative, and what its search made of that."""
    seen: list[str] = []
    noisy: list[Run] = []
    for bits, study in levels.items():
        runs = _runs_of(study, "scfl")
        smallest = _median([run.smallest_eigenvalue for run in runs])
        if bits is None or smallest is None:
            continue
        noisy += runs
        seen.append(f"{smallest:+.3g} at {name_level(bits, currency)}{_quote_rate(runs)}")
    if not seen:
        return ""
    diverged = sum(run.diverged for run in noisy)
    return (
        "Measured here: the smallest eigenvalue, as the coded data tells it before training "
        f"(median over seeds), is {list_words(seen)}; {diverged or 'none'} of "
        f"{count_words(len(noisy), 'run')} diverged."
    )


def _runs_of(study: Study, method: str) -> Sequence[Run]:
    """The runs of the first label that is of a method."""
    labels = [label for label, known in study.methods.items() if known == method]
    return study.of(labels[0]) if labels else ()


def _quote_rate(runs: Sequence[Run]) -> str:
    rate = runs[0].parameters.get("learning_rate")
    return f" (learning rate {rate:g})" if isinstance(rate, (int, float)) else ""


def _median_excess(runs: Sequence[Run], optimum: float | None) -> float | None:
    if optimum is None:
        return None
    excesses = [run.loss - optimum for run in runs if run.loss is not None and not run.diverged]
    return _median(excesses)


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None
