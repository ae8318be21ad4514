"""The result of a study in one sentence per clock, true whatever the data say.

The sentences name the method that is first in the median, how far ahead of the reference it is
seed by seed, and who never gets there; a tie, a lone method and a study where nobody gets there
each have words of their own.
"""

from __future__ import annotations

import math

from scfl.study.summary import Clock, LabelSummary, Spread, Summary, Target
from scfl.study.wording import count_words, format_loss, format_score, format_seconds, list_words

_FOLLOWERS = 3
# A ratio that would read "1.0 times sooner" is no lead.
_LEAD = 1.05


def conclude(summary: Summary) -> tuple[str, ...]:
    """One sentence per clock, or a single one where the clocks cannot differ, and a caveat."""
    if not summary.labels:
        return ("No run is finished yet, so there is nothing to compare.",)
    if all(label.diverged == label.runs for label in summary.labels):
        return (
            "Every run diverged, so no method can be compared; see the reasons given for each run.",
        )
    if summary.target is None:
        return ("No run recorded a score, so there is nothing to compare.",)
    if not summary.has_setup:
        return (
            _sentence(summary, summary.target, "apart", f"On the {summary.clock} clock, "),
            "No method here has a setup, so it makes no difference whether setup time is counted.",
            *_caveat(summary),
        )
    return (
        _sentence(summary, summary.target, "counted", "With the upload and encoding counted, "),
        _sentence(summary, summary.target, "apart", "With the setup left out, as the paper does, "),
        *_caveat(summary),
    )


def _caveat(summary: Summary) -> tuple[str, ...]:
    if summary.seeds > 1:
        timed = any(math.isfinite(_median(label, "apart")) for label in summary.labels)
        if not timed:
            return ()
        return (f"Times are medians over {summary.seeds} seeds.",)
    return ("This is one seed; another may tell a different story.",)


def _sentence(summary: Summary, target: Target, clock: Clock, lead: str) -> str:
    return f"{lead}{_body(summary, target, clock)}."


def _body(summary: Summary, target: Target, clock: Clock) -> str:
    reached = sorted(
        (label for label in summary.labels if math.isfinite(_median(label, clock))),
        key=lambda label: _median(label, clock),
    )
    missing = [label for label in summary.labels if label not in reached]
    if not reached:
        return _nobody(summary, target, clock)
    best = _median(reached[0], clock)
    first = [
        label for label in reached if format_seconds(_median(label, clock)) == format_seconds(best)
    ]
    after = _after(best)
    if len(summary.labels) == 1:
        return (
            f"{_name(first[0], clock)} reaches {target.wording} {after}; "
            "there is no other method to compare it with"
        )
    behind = reached[len(first) :]
    if len(first) > 1:
        names = list_words([label.label for label in first])
        head = f"{names} are first together: {target.wording} {after}"
    else:
        head = f"{_name(first[0], clock)} is first: {target.wording} {after}"
        lead = _lead(summary, first[0], clock)
        if lead:
            # The reference's own time stands beside the ratio.
            behind = [label for label in behind if label.label != summary.reference]
        head += lead or _level(summary, first[0], clock)
    parts = [head, *_followers(behind, clock), *_absentees(missing, clock)]
    return "; ".join(parts)


def _nobody(summary: Summary, target: Target, clock: Clock) -> str:
    """Nobody gets there: say who comes nearest, and who got there with some seeds."""
    finals: list[tuple[LabelSummary, Spread]] = []
    for label in summary.labels:
        score = label.score(target.metric)
        if score is not None:
            finals.append((label, score))
    one = len(summary.labels) == 1
    words = f"{summary.labels[0].label if one else 'no method'}"
    words += f" {'does not reach' if one else 'reaches'} {target.wording}"
    if summary.seeds > 1:
        words += f" in the median over {summary.seeds} seeds"
    if finals:
        pick = max if target.metric == "accuracy" else min
        nearest, score = pick(finals, key=lambda pair: pair[1].median)
        form = format_score if target.metric == "accuracy" else format_loss
        name = "it" if one else f"{nearest.label} comes nearest and"
        words += f"; {name} ends at {form(score.median)}"
    some = [
        f"{label.label} gets there with {_seeds_reached(label, clock)}"
        for label in summary.labels
        if label.reach is not None and label.reach[clock].reached
    ]
    return "; ".join([words, *some])


def _lead(summary: Summary, winner: LabelSummary, clock: Clock) -> str:
    """How far the winner is ahead of the reference, where both have a time; else nothing."""
    reference = _reference(summary)
    lead = winner.speed_up[clock]
    if lead is None or reference is winner or not math.isfinite(_median(reference, clock)):
        return ""
    if not _LEAD <= lead.spread.median < math.inf:
        return ""
    notes = [format_seconds(_median(reference, clock))]
    if _partly(reference, clock):
        notes.append(f"with {_seeds_reached(reference, clock)}")
    ratio = f"{lead.spread.median:.1f} times sooner than {reference.label} ({', '.join(notes)})"
    some = f", ahead in {lead.ahead} of {lead.pairs} seeds" if lead.ahead < lead.pairs else ""
    return f", {ratio}{some}"


def _level(summary: Summary, winner: LabelSummary, clock: Clock) -> str:
    """First in the median, yet not ahead of the reference when seeds are compared in pairs."""
    lead = winner.speed_up[clock]
    if lead is None or _reference(summary) is winner or lead.spread.median >= _LEAD:
        return ""
    how = "behind" if lead.spread.median < 1 / _LEAD else "about level with"
    return f", though seed by seed {how} {summary.reference}"


def _reference(summary: Summary) -> LabelSummary:
    return next(label for label in summary.labels if label.label == summary.reference)


def _followers(followers: list[LabelSummary], clock: Clock) -> list[str]:
    words = [
        f"{_name(label, clock)} {_after(_median(label, clock))}" for label in followers[:_FOLLOWERS]
    ]
    more = len(followers) - _FOLLOWERS
    return [*words, f"{count_words(more, 'more method')} later"] if more > 0 else words


def _absentees(missing: list[LabelSummary], clock: Clock) -> list[str]:
    words = [
        f"{label.label} reaches it with only {_seeds_reached(label, clock)}"
        for label in missing
        if label.reach and label.reach[clock].reached
    ]
    never = [label.label for label in missing if not (label.reach and label.reach[clock].reached)]
    if len(never) > _FOLLOWERS:
        words.append(f"{len(never)} others do not reach it")
    elif never:
        words.append(f"{list_words(never)} {'does' if len(never) == 1 else 'do'} not reach it")
    return words


def _name(label: LabelSummary, clock: Clock) -> str:
    """The label, and with how many seeds it got there when not with all."""
    return (
        f"{label.label} (with {_seeds_reached(label, clock)})"
        if _partly(label, clock)
        else label.label
    )


def _partly(label: LabelSummary, clock: Clock) -> bool:
    """Whether only some seeds got there."""
    reach = label.reach[clock] if label.reach else None
    return reach is not None and reach.reached < len(reach.times_s)


def _seeds_reached(label: LabelSummary, clock: Clock) -> str:
    reach = label.reach[clock] if label.reach else None
    return "no seed" if reach is None else f"{reach.reached} of {len(reach.times_s)} seeds"


def _after(seconds: float) -> str:
    return f"after {format_seconds(seconds)}" if seconds > 0 else "from the start"


def _median(label: LabelSummary, clock: Clock) -> float:
    return label.reach[clock].spread.median if label.reach else math.inf
