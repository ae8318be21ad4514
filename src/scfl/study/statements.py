"""What clients released and what is guaranteed of it, in one sentence per kind of client."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from scfl.privacy.accountant import Account, is_uncovered
from scfl.privacy.events import Gradients, Products, Release, Sketch
from scfl.privacy.sketch import Guarantee
from scfl.study.wording import format_number, format_range, list_words

_MOST_LISTED = 8


def state_releases(
    names: Sequence[str],
    releases: Sequence[tuple[Release, ...]],
    accounts: Sequence[Account],
    row_norm: float | None,
) -> list[str]:
    """One sentence for all clients that released the same kinds of things.

    Amounts that differ between them are given as a range, and the guarantee is the weakest.
    """
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for client, events in enumerate(releases):
        groups[tuple(_kind(event) for event in events)].append(client)
    sentences = []
    for members in groups.values():
        whom = _name([names[client] for client in members], len(names))
        first = releases[members[0]]
        if not first:
            sentences.append(f"{whom} sent nothing.")
            continue
        sent = list_words(
            [
                _describe([releases[client][place] for client in members])
                for place in range(len(first))
            ]
        )
        coverage = _cover(first, [accounts[client] for client in members], row_norm)
        sentences.append(f"{whom} sent {sent}: {coverage}.")
    return sentences


def _kind(event: Release) -> tuple[object, ...]:
    """What must be equal for clients to share a sentence."""
    if isinstance(event, Sketch):
        return ("sketch", event.codes, event.sigma, event.labels_noised, event.layout)
    return (event.kind, event.sigma) if isinstance(event, Gradients) else (event.kind,)


def _describe(events: list[Release]) -> str:
    first = events[0]
    if isinstance(first, Products):
        return f"the exact sums of products of {first.columns:,} columns, labels among them"
    if isinstance(first, Sketch):
        where = "summed with everybody's" if first.layout == "summed" else "kept apart by client"
        each = "" if first.codes == 1 else f" for each of {first.codes:,} batches"
        amount = _range([event.rows for event in events if isinstance(event, Sketch)])
        noise = f"noise sigma {first.sigma:g} on "
        noise += "features and labels" if first.labels_noised else "the features only"
        return f"{amount} coded rows{each} ({where}) with {noise if first.sigma else 'no noise'}"
    gradients = [event for event in events if isinstance(event, Gradients)]
    rounds = _range([event.rounds for event in gradients])
    rows = _range([event.rows_per_round for event in gradients])
    noise = "no noise"
    if isinstance(first, Gradients) and first.sigma:
        noise = f"noise sigma {first.sigma:g}, each row's own cut to norm {first.norm:g}"
    return f"{rounds} gradients over {rows} rows each with {noise}"


def _cover(events: tuple[Release, ...], accounts: Sequence[Account], row_norm: float | None) -> str:
    whole = _weakest([account.whole for account in accounts])
    if whole is not None:
        return f"{_promise(whole, row_norm)} in all of it{_caution(events)}"
    coded = _weakest([account.coded for account in accounts])
    open_ends = list_words([_name_gap(event) for event in events if is_uncovered(event)])
    if coded is not None:
        return (
            f"{_promise(coded, row_norm)} in the coded data only{_caution(events)}; "
            f"{open_ends} not covered by any guarantee"
        )
    if all(is_uncovered(event) for event in events):
        return "not covered by any guarantee" + _reason(events)
    missing = "not covered by any guarantee, for want of a bound on the rows' norm and a delta"
    return f"{missing}; {open_ends} not covered even so" if open_ends else missing


def _promise(guarantee: Guarantee, row_norm: float | None) -> str:
    return (
        f"epsilon {guarantee.epsilon:.4g} at delta {guarantee.delta:.3g} holds for any one row of "
        f"norm at most {row_norm:g}"
    )


def _caution(events: tuple[Release, ...]) -> str:
    cautions = []
    if any(isinstance(event, Sketch) and event.layout == "summed" for event in events):
        cautions.append("each client's code taken as seen by itself")
    if any(isinstance(event, Gradients) and event.sigma and event.rate < 1 for event in events):
        cautions.append("rows drawn by coins that stay with the client")
    return f" ({'; '.join(cautions)})" if cautions else ""


def _reason(events: tuple[Release, ...]) -> str:
    bare = any(
        isinstance(event, Sketch) and event.sigma > 0 and not event.labels_noised
        for event in events
    )
    return ", as the coded labels carry no noise" if bare else ""


def _name_gap(event: Release) -> str:
    if isinstance(event, Gradients):
        return "the gradients are"
    return "the sums of products are" if isinstance(event, Products) else "the coded rows are"


def _weakest(guarantees: Sequence[Guarantee | None]) -> Guarantee | None:
    if any(guarantee is None for guarantee in guarantees):
        return None
    return max(
        (guarantee for guarantee in guarantees if guarantee is not None),
        key=lambda guarantee: guarantee.epsilon,
    )


def _range(amounts: Sequence[float]) -> str:
    return format_range(min(amounts), max(amounts), format_number)


def _name(members: Sequence[str], clients: int) -> str:
    if len(members) == clients:
        return f"All {clients:,} clients" if clients > 1 else members[0]
    if len(members) <= _MOST_LISTED:
        return list_words(list(members))
    return f"{len(members):,} of {clients:,} clients"
