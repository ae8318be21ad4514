"""Every error that scfl raises on purpose.

    ScflError
    ├── ParameterError   (ValueError)    a parameter is out of range; lists every one that is
    ├── ConfigError      (ValueError)    a configuration file has problems; lists every one
    ├── DataError        (ValueError)    rows, labels or client assignments cannot be used
    ├── InfeasibleError  (ValueError)    what was asked for cannot be; names the nearest that can
    ├── OutputError      (OSError)       a folder cannot be written or belongs to something else
    └── RunError         (RuntimeError)  something that was asked for could not be finished

Each message is one sentence a user can act on: the field, the value, what is allowed, the way
out. All but ``RunError`` are the caller's mistake; the command line turns those into exit code 2
and ``RunError`` into exit code 1, and never shows a traceback for either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


class ScflError(Exception):
    """The root of everything that scfl raises on purpose."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: where it is, and one sentence that says what to do.

    Where the way out is a larger number, ``enough`` is that number: of several problems in one
    place, the one with the largest is the one to mend.
    """

    where: str
    sentence: str
    enough: float = 0.0

    def __str__(self) -> str:
        return f"{self.where}: {self.sentence}" if self.where else self.sentence

    def within(self, owner: str) -> Problem:
        """The same problem, seen from one level further out."""
        return replace(self, where=f"{owner}.{self.where}" if self.where else owner)


class _ListedError(ScflError, ValueError):
    """An error that reports all problems at once, so that a user mends them in one go."""

    def __init__(self, problems: Sequence[Problem] | str) -> None:
        self.problems = (Problem("", problems),) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    def __reduce__(self) -> tuple[type[_ListedError], tuple[tuple[Problem, ...]]]:
        # Exceptions cross process borders by their constructor's arguments.
        return type(self), (self.problems,)


class ParameterError(_ListedError):
    """A parameter is out of range."""


class ConfigError(_ListedError):
    """A configuration file has problems."""


class DataError(_ListedError):
    """Rows, labels or client assignments cannot be used."""


class InfeasibleError(_ListedError):
    """What was asked for cannot be had; the message names the nearest that can."""


class OutputError(ScflError, OSError):
    """A folder cannot be written, or belongs to something else."""


class RunError(ScflError, RuntimeError):
    """Something that was asked for could not be finished."""
