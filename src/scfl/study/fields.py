"""Typed access to a JSON object, whose errors say which file lacks what."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scfl.errors import OutputError


@dataclass(frozen=True)
class Fields:
    """A JSON object and where it came from. Keys that nobody asks for are left alone."""

    where: str
    values: Any

    def text(self, key: str) -> str:
        return str(self._typed(key, (str,), "text"))

    def optional_text(self, key: str) -> str | None:
        return None if self._get(key) is None else self.text(key)

    def flag(self, key: str) -> bool:
        return bool(self._typed(key, (bool,), "true or false"))

    def whole(self, key: str) -> int:
        return int(self._typed(key, (int,), "a whole number"))

    def optional_whole(self, key: str) -> int | None:
        return None if self._get(key) is None else self.whole(key)

    def number(self, key: str) -> float:
        return float(self._typed(key, (int, float), "a number"))

    def optional_number(self, key: str) -> float | None:
        """A finite number; null and what is not finite are both None."""
        value = None if self._get(key) is None else self.number(key)
        return value if value is not None and math.isfinite(value) else None

    def mapping(self, key: str) -> Mapping[str, Any]:
        value: Mapping[str, Any] = self._typed(key, (dict,), "an object")
        return value

    def optional_mapping(self, key: str) -> Mapping[str, Any]:
        """The object under ``key``, empty where older records have none."""
        known = isinstance(self.values, dict) and key in self.values
        return self.mapping(key) if known else {}

    def sequence(self, key: str) -> list[Any]:
        return list(self._typed(key, (list,), "a list"))

    def optional_sequence(self, key: str) -> list[Any] | None:
        return None if self._get(key) is None else self.sequence(key)

    def item(self, key: str) -> Fields:
        """The object under ``key``."""
        return Fields(f"{self.where}, {key}", self.mapping(key))

    def optional_item(self, key: str) -> Fields | None:
        """The object under ``key``; None where it is null, or missing as in older records."""
        absent = isinstance(self.values, dict) and self.values.get(key) is None
        return None if absent else self.item(key)

    def items(self, key: str) -> list[Fields]:
        """The objects in the list under ``key``."""
        return [
            Fields(f"{self.where}, {key}[{index}]", value)
            for index, value in enumerate(self.sequence(key))
        ]

    def optional_items(self, key: str) -> list[Fields]:
        """The same; none where the list is missing, as in records that have no use for it."""
        known = isinstance(self.values, dict) and key in self.values
        return self.items(key) if known else []

    def _get(self, key: str) -> Any:
        if not isinstance(self.values, dict):
            raise OutputError(f"{self.where}: {_shown(self.values)} stands where an object belongs")
        if key not in self.values:
            raise OutputError(f"{self.where}: {key!r} is missing; run the study again")
        return self.values[key]

    def _typed(self, key: str, kinds: tuple[type, ...], allowed: str) -> Any:
        value = self._get(key)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise OutputError(f"{self.where}: {key} is {_shown(value)}; it must be {allowed}")
        return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
