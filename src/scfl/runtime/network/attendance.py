"""Whether a round can be played with those who are here, and how long nobody may be."""

from __future__ import annotations

from dataclasses import dataclass, field

from scfl.errors import RunError
from scfl.runtime.network.terms import Terms


@dataclass(eq=False)
class Attendance:
    """Who is ``expected`` back since a restart, and since when nobody has been here at all."""

    terms: Terms
    expected: set[str] = field(default_factory=set)
    since: float = 0.0
    _alone_since: float | None = None

    def suffices(self, names: set[str], asked: bool, now: float, done: int) -> bool:
        """Whether to play, with these ``names`` here, some of whom would be ``asked`` or not.

        A round needs somebody. After a restart everybody gets a moment to come back first.
        """
        self.expected -= names
        if self.expected and now - self.since < self.terms.enrol_s:
            return False
        self.expected = set()
        if asked:
            self._alone_since = None
            return True
        self._alone_since = now if self._alone_since is None else self._alone_since
        if now - self._alone_since >= self.terms.patience_s:
            raise RunError(
                f"no client was there for {self.terms.patience_s:g} s; the model of round {done} "
                "is kept; start the clients and then this again"
            )
        return False
