"""The methods of a study, from their tables and what [defaults] says for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

from scfl.core.parameter import build, suggest
from scfl.errors import ConfigError, ParameterError, Problem
from scfl.methods.protocol import Method
from scfl.methods.registry import find_method


def read_methods(entries: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Method]:
    """The methods of the tables [methods.LABEL], each with the defaults that it takes."""
    if not entries:
        raise ConfigError(
            [Problem("methods", "is missing; name at least one method, such as [methods.scfl]")]
        )
    problems: list[Problem] = []
    methods: dict[str, Method] = {}
    for label, entry in entries.items():
        try:
            if not isinstance(entry, Mapping):
                raise ParameterError(f"{entry!r} is a value; write a table [methods.{label}]")
            kind = find_method(str(entry.get("method", label)))
            own = {key: value for key, value in entry.items() if key != "method"}
            accepted = {parameter.name.replace("_", "-") for parameter in fields(kind)}
            shared = {key: value for key, value in defaults.items() if key in accepted}
            methods[label] = build(kind, _merge(kind, shared, own))
        except ParameterError as error:
            problems += [problem.within(f"methods.{label}") for problem in error.problems]
    accepted_by_any = {
        parameter.name.replace("_", "-")
        for method in methods.values()
        for parameter in fields(method)
    }
    problems += [
        Problem(f"defaults.{key}", f"no method here takes it; {suggest(key, accepted_by_any)}")
        for key in defaults
        if methods and key not in accepted_by_any
    ]
    if problems:
        raise ConfigError(problems)
    return methods


def _merge(kind: type[Method], shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """A method's own keys win; tables of one and the same kind are merged key by key."""
    merged, hints = {**shared, **own}, get_type_hints(kind)
    for key in shared.keys() & own.keys():
        tables = isinstance(shared[key], Mapping) and isinstance(own[key], Mapping)
        if tables and is_dataclass(hints[key.replace("-", "_")]):
            merged[key] = {**shared[key], **own[key]}
    return merged
