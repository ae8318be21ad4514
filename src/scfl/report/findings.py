"""What attacks on coded data found, in words, and whether that is what has to come out."""

from __future__ import annotations

from dataclasses import dataclass

from scfl.privacy.audit import EXPECTED_SHARE, ClassAudit, EntryAudit, MembershipAudit


@dataclass(frozen=True)
class Finding:
    """An attack in words, what came out, and whether that is what has to come out."""

    attack: str
    outcome: str
    expected: bool


def report_membership(audit: MembershipAudit) -> Finding:
    """Below the promise, and close enough to it to mean something."""
    outcome = (
        f"epsilon is at least {audit.measured_epsilon:.3g}; promised was "
        f"{audit.promised_epsilon:.3g} at delta {audit.delta:g}"
    )
    if not audit.holds:
        outcome += ": THE PROMISE IS BROKEN"
    elif audit.share < EXPECTED_SHARE:
        outcome += f": less than {EXPECTED_SHARE:.0%} of it, too weak a test; give more trials"
    attack = (
        f"membership of one row, {audit.rows:,} coded rows, noise {audit.noise:.4g}, "
        f"{audit.trials:,} trials, {audit.confidence:.1%} confidence"
    )
    return Finding(attack, outcome, audit.holds and audit.share >= EXPECTED_SHARE)


def report_halved(audit: MembershipAudit) -> Finding:
    """An audit that could not catch half the noise would not be worth its name."""
    caught = "caught" if not audit.holds else "NOT CAUGHT; give more trials"
    outcome = (
        f"epsilon is at least {audit.measured_epsilon:.3g}, above the promised "
        f"{audit.promised_epsilon:.3g}: {caught}"
        if not audit.holds
        else f"epsilon is at least {audit.measured_epsilon:.3g}: {caught}"
    )
    return Finding("the same where the client secretly halves its noise", outcome, not audit.holds)


def report_entry(audit: EntryAudit) -> Finding:
    """Theorem 2 allows some bits; the attacker has them all."""
    outcome = (
        f"recovered to {audit.error:.1g}; Theorem 2 allows {audit.printed_bits:.2g} bits: it does "
        "not hold against who knows other columns"
    )
    return Finding("one entry from the other columns, no noise", outcome, audit.error < 1e-9)


def report_classes(audit: ClassAudit) -> Finding:
    """Without noise on labels everything is read off; with it, less."""
    noise = f"noise {audit.label_noise:.4g}" if audit.label_noise else "no noise"
    outcome = f"all classes of {audit.clients_right:.0%} of clients told right"
    if audit.label_noise:
        outcome += "; noise that hides one row does not hide what many rows share"
    expected = audit.clients_right == 1 if audit.label_noise == 0 else audit.clients_right < 1
    return Finding(f"classes of label-sorted clients, {noise} on labels", outcome, expected)
