"""What the sentences of the paper's section V, and two of ours, compare in recorded runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, pairwise

from scfl.experiments.claims import Claim, Comparison, Series
from scfl.experiments.evidence import quote_floor, quote_limit
from scfl.experiments.levels import Currency, name_level
from scfl.experiments.sentences import REASONS, SENTENCES
from scfl.study.records import Run, Study
from scfl.study.summary import Clock, Target, time_to_target


def claims_of_curves(study: Study, targets: Sequence[float], clock: Clock) -> list[Claim]:
    """What section V says of Fig. 1, on one of the two clocks."""
    by_method = _group(study)
    drops = _by_drop(study)

    def times(label: str, target: float) -> Series:
        return {run.seed: seconds_to(run, target, clock) for run in study.of(label)}

    def sooner(first: str, second: str, what: str = "") -> list[Comparison]:
        return [
            Comparison(
                what=what or f"{first} before {second}",
                where=f"to {target:g}",
                unit="seconds",
                expected="less",
                first=times(first, target),
                second=times(second, target),
            )
            for target in targets
        ]

    scfl, coded = by_method.get("scfl", ()), by_method.get("codedfedl", ())
    dp_cfl, plain = by_method.get("dp-cfl", ()), drops.get(0.0)
    levels = list(combinations(sorted(drops), 2))
    return _with_comparisons(
        _claim(
            "cfl-fb-slow",
            _all(sooner, [*scfl, *coded], by_method.get("cfl-fb", ())),
        ),
        _claim(
            "fedavg-slow",
            _all(sooner, [*scfl, *coded, *dp_cfl], [plain] if plain else []),
        ),
        _claim(
            "dropping-is-faster",
            tuple(
                comparison
                for less, more in levels
                for comparison in sooner(drops[more], drops[less])
            ),
        ),
        _claim(
            "dropping-ends-lower",
            tuple(
                _compare_finals(study, drops[more], drops[less], "less") for less, more in levels
            ),
        ),
        _claim(
            "dp-cfl-slow",
            _all(sooner, scfl, dp_cfl),
        ),
        _claim(
            "codedfedl-comparable",
            tuple(
                Comparison(
                    what=f"{first} and {second}",
                    where=f"to {target:g}",
                    unit="seconds",
                    expected="same",
                    first=times(first, target),
                    second=times(second, target),
                )
                for first in coded
                for second in scfl
                for target in targets
            ),
            quote_floor(study),
        ),
        _claim(
            "coding-helps",
            (
                *_all(sooner, scfl, by_method.get("fl-ipw", ())),
                *(
                    _compare_finals(study, first, second, "more")
                    for first in scfl
                    for second in by_method.get("fl-ipw", ())
                ),
            ),
            quote_floor(study),
        ),
        _claim(
            "rounds-beat-one-shot",
            tuple(
                Comparison(
                    what=f"{first} before {second}",
                    where=f"to {target:g}",
                    unit="seconds",
                    expected="less",
                    first=times(first, target),
                    second=times(second, target),
                )
                for first in scfl
                for second in by_method.get("one-shot", ())
                for target in targets
            ),
        ),
    )


def claims_of_budgets(
    levels: Mapping[float | None, Study], currency: Currency = "printed"
) -> list[Claim]:
    """What section V says of Fig. 2: studies by budget, from no noise to the smallest.

    Budgets that are guarantees have another claim: whether they are worth a code at all.
    """
    ordered = list(levels.items())
    everything = levels[None]
    by_method = _group(everything)
    noisy = [label for label in everything.labels if all(study.of(label) for _, study in ordered)]
    plain = by_method.get("fl-ipw", ())

    def against(first: str, second: str, *, fixed: bool = False) -> list[Comparison]:
        """Level by level; a ``fixed`` second is the same at all levels, as it codes nothing."""
        return [
            Comparison(
                what=f"{first} above {second}",
                where=_place(bits),
                unit="accuracy",
                expected="more",
                first=_finals(study, first),
                second=_finals(everything if fixed else study, second),
            )
            for bits, study in ordered
        ]

    rivals = [*by_method.get("codedfedl", ()), *by_method.get("dp-cfl", ())]
    return _with_comparisons(
        _claim(
            "accuracy-falls",
            tuple(
                Comparison(
                    what=label,
                    where=f"from {name_level(before, currency)} to {name_level(after, currency)}",
                    unit="accuracy",
                    expected="less",
                    first=_finals(study, label),
                    second=_finals(previous, label),
                )
                for label in noisy
                for (before, previous), (after, study) in pairwise(ordered)
            ),
        ),
        _claim(
            "scfl-best",
            _all(against, by_method.get("scfl", ()), rivals),
            quote_floor(everything),
            quote_limit(levels, currency),
        ),
        _claim(
            "coding-pays",
            tuple(
                comparison
                for first in by_method.get("scfl", ())
                for second in plain
                for comparison in against(first, second, fixed=True)
            ),
            quote_floor(everything),
        ),
        *([_use_no_code(ordered, everything, noisy)] if currency == "exact" else []),
    )


def _use_no_code(
    ordered: Sequence[tuple[float | None, Study]], bare: Study, noisy: Sequence[str]
) -> Claim:
    """Momentum, which needs no code, against every method that has one, at every guarantee."""
    momentum = [label for label in bare.labels if bare.of(label)[0].parameters.get("momentum")]
    return _claim(
        "no-code-best",
        tuple(
            Comparison(
                what=f"{first} above {second}",
                where=_place(epsilon),
                unit="accuracy",
                expected="more",
                first=_finals(bare, first),
                second=_finals(study, second),
            )
            for first in momentum
            for second in noisy
            for epsilon, study in ordered
            if epsilon is not None
        ),
    )


def final_accuracy(run: Run) -> float:
    """The accuracy that a run ends with; one that diverged is left with its first guess."""
    return float(run.trace.accuracy[0]) if run.diverged or run.accuracy is None else run.accuracy


def seconds_to(run: Run, target: float, clock: Clock) -> float:
    """When a run first has the target accuracy. One upload that is the whole training counts."""
    if run.method == "one-shot":
        clock = "counted"
    return time_to_target(run, Target("accuracy", target, ""), clock)


def _finals(study: Study, label: str) -> Series:
    return {run.seed: final_accuracy(run) for run in study.of(label)}


def _compare_finals(study: Study, first: str, second: str, expected: str) -> Comparison:
    return Comparison(
        what=f"{first} {'above' if expected == 'more' else 'below'} {second}",
        where="at the end",
        unit="accuracy",
        expected="more" if expected == "more" else "less",
        first=_finals(study, first),
        second=_finals(study, second),
    )


def _group(study: Study) -> dict[str, list[str]]:
    """The labels of each method, in the order configured."""
    groups: dict[str, list[str]] = {}
    for label, method in study.methods.items():
        groups.setdefault(method, []).append(label)
    return groups


def _by_drop(study: Study) -> dict[float, str]:
    """FedAvg and FL-PMA by how much they drop."""
    found = {}
    for label, method in study.methods.items():
        if method in ("fedavg", "fl-pma"):
            drop = study.of(label)[0].parameters.get("drop_fraction", 0.0)
            found[float(drop)] = label
    return found


def _all(
    compare: Callable[[str, str], list[Comparison]], first: Iterable[str], second: Iterable[str]
) -> tuple[Comparison, ...]:
    others = list(second)
    return tuple(found for one in first for other in others for found in compare(one, other))


def _claim(key: str, comparisons: tuple[Comparison, ...], *measured: str) -> Claim:
    because = " ".join(part for part in (REASONS.get(key, ""), *measured) if part)
    return Claim(key, SENTENCES[key], comparisons, because)


def _with_comparisons(*claims: Claim) -> list[Claim]:
    """The claims that the study has the methods for."""
    return [claim for claim in claims if claim.comparisons]


def _place(bits: float | None) -> str:
    return "without noise" if bits is None else f"at eps {bits:g}"
