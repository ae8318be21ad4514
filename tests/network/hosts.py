"""Hosts of the test's own: network namespaces around a bridge, each with a link of its own rate."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

SERVER = "10.99.0.1"


def can_make_hosts() -> str | None:
    """Why this machine cannot, or None."""
    name = f"scfl-{os.getpid()}-try"
    try:
        _ip("netns", "add", name)
        try:
            _ip("-n", name, "link", "add", "wire0", "type", "veth", "peer", "name", "wire1")
            _tc(name, "wire0", "1mbit")
        finally:
            _ip("netns", "del", name)
    except (OSError, subprocess.SubprocessError) as error:
        return f"no network namespaces with rate-limited links here ({error})"
    return None


@dataclass(frozen=True)
class Hosts:
    """The server's host and the clients'; a command is run on one by putting its prefix before."""

    names: Sequence[str]

    def on(self, host: int) -> list[str]:
        """Host 0 is the server's."""
        return ["ip", "netns", "exec", self.names[host]]

    def unplug(self, host: int) -> None:
        """The link is dead from now on, without a word to anybody."""
        _ip("-n", self.names[host], "link", "set", "wire", "down")


@contextmanager
def hosts(rates: Sequence[str]) -> Iterator[Hosts]:
    """A server's host, and one host for each rate of its link, such as ``1mbit``."""
    names = [f"scfl-{os.getpid()}-{number}" for number in range(len(rates) + 1)]
    made = []
    try:
        for name in names:
            _ip("netns", "add", name)
            made.append(name)
            _ip("-n", name, "link", "set", "lo", "up")
        hub = names[0]
        _ip("-n", hub, "link", "add", "bridge", "type", "bridge")
        _ip("-n", hub, "addr", "add", f"{SERVER}/24", "dev", "bridge")
        _ip("-n", hub, "link", "set", "bridge", "up")
        for number, (name, rate) in enumerate(zip(names[1:], rates, strict=True), start=1):
            port = f"port{number}"
            _ip("-n", hub, "link", "add", port, "type", "veth", "peer", "wire", "netns", name)
            _ip("-n", hub, "link", "set", port, "master", "bridge", "up")
            _ip("-n", name, "addr", "add", f"10.99.0.{number + 1}/24", "dev", "wire")
            _ip("-n", name, "link", "set", "wire", "up")
            _tc(hub, port, rate)
            _tc(name, "wire", rate)
        yield Hosts(names)
    finally:
        for name in made:
            with contextlib.suppress(subprocess.SubprocessError):
                _ip("netns", "del", name)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)


def _tc(host: str, link: str, rate: str) -> None:
    shape = ["root", "tbf", "rate", rate, "burst", "32kbit", "latency", "400ms"]
    command = ["tc", "-n", host, "qdisc", "add", "dev", link, *shape]
    subprocess.run(command, check=True, capture_output=True, timeout=20)
