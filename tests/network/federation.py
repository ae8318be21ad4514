"""A real federation on loopback: one SuperLink, SuperNodes with data, TLS, and registered keys.

Every process is started here, has its output in a file, and is ended by its id when the block is
left, whatever happened in it. Only addresses of the loopback range are used.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from sklearn.datasets import load_digits

HOST = "127.0.0.1"
NAME = "loopback"


def free_port(host: str = HOST) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def wait_for(what: Callable[[], Any], seconds: float, saying: str) -> Any:
    """What ``what`` returns once it is true; bounded."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        value = what()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError(f"{saying} did not happen within {seconds:g} s")


def processes_of(mark: str) -> dict[int, str]:
    """The processes that carry a mark in their environment, with their command lines.

    Flower's processes start others in sessions of their own, which outlive them.
    """
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(ValueError, OSError):
            number = int(entry.name)
            if mark.encode() in (entry / "environ").read_bytes():
                found[number] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def write_certificates(folder: Path, hosts: Sequence[str]) -> None:
    """An authority of the test's own, and a server certificate that it signed."""
    now = dt.datetime.now(dt.UTC)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, word)])
        for word in ("scfl test authority", "scfl test server")
    ]
    for which, word in enumerate(("ca", "server")):
        builder = (
            x509.CertificateBuilder()
            .subject_name(names[which])
            .issuer_name(names[0])
            .public_key(keys[which].public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=which == 0, path_length=None), critical=True)
        )
        if which:
            addresses = [x509.IPAddress(ipaddress.ip_address(host)) for host in hosts]
            builder = builder.add_extension(
                x509.SubjectAlternativeName([x509.DNSName("localhost"), *addresses]), critical=False
            )
        signed = builder.sign(keys[0], hashes.SHA256())
        (folder / f"{word}.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        (folder / f"{word}.key").write_bytes(
            keys[which].private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )


def write_node_key(path: Path) -> None:
    """A SuperNode's key pair, as `ssh-keygen -t ecdsa -b 384` makes it."""
    key = ec.generate_private_key(ec.SECP384R1())
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        )
    )
    path.chmod(0o600)
    path.with_suffix(".pub").write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        )
    )


def write_shares(folder: Path, nodes: int) -> None:
    """The digits, dealt out: one file per node, and one to test on."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order] / 16, y[order]
    np.savez(folder / "test.npz", X=X[:300], y=y[:300])
    for node, rows in enumerate(np.array_split(np.arange(300, len(y)), nodes)):
        np.savez(folder / f"share-{node}.npz", X=X[rows], y=y[rows])


@dataclass
class Federation:
    """The running processes, and how to talk to them."""

    folder: Path
    port: int
    host: str = HOST
    prefixes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        beside = str(Path(sys.executable).parent)
        return {
            **os.environ,
            "PATH": f"{beside}{os.pathsep}{os.environ['PATH']}",
            "FLWR_HOME": str(self.folder / "home"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }

    def start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        """Start a process of the federation, with its output in a file."""
        beside = Path(sys.executable).parent
        programs = [str(beside / word) if word.startswith("flower-") else word for word in command]
        words = [*self.prefixes.get(name, ()), *programs]
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                words,
                env={**self.environment, **dict([self.mark(name).split("=", 1)])},
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self.processes[name] = process
        return process

    def mark(self, name: str) -> str:
        """What tells the processes that belong to one of ours from all others."""
        return f"SCFL_TEST_PROCESS={self.folder}/{name}."

    def end(self, name: str) -> None:
        """End one process and those that it started, each by its id."""
        process = self.processes.pop(name)
        for pid in sorted({process.pid, *processes_of(self.mark(name))}):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(15)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def flwr(self, *words: str, seconds: float = 180) -> subprocess.CompletedProcess[str]:
        beside = Path(sys.executable).with_name("flwr")
        prefix = self.prefixes.get("flwr", ())
        return subprocess.run(
            [*prefix, str(beside), *words],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def start_superlink(self) -> None:
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "{NAME}"\n\n[superlink.{NAME}]\n'
            f'address = "{self.host}:{self.port}"\n'
            f'root-certificates = "{self.folder / "ca.pem"}"\n',
            encoding="utf-8",
        )
        self.start(
            "superlink",
            "flower-superlink",
            *("--host", self.host, "--port", str(self.port)),
            *("--ssl-ca-certfile", str(self.folder / "ca.pem")),
            *("--ssl-certfile", str(self.folder / "server.pem")),
            *("--ssl-keyfile", str(self.folder / "server.key")),
            *("--database", str(self.folder / "state.db")),
            "--enable-supernode-auth",
            "--disable-runtime-dependency-installation",
        )
        wait_for(self._answers, 180, "the SuperLink's first answer")

    def _answers(self) -> bool:
        process = self.processes["superlink"]
        assert process.poll() is None, self.log("superlink")
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex((self.host, self.port)) == 0

    def register(self, node: int | str) -> None:
        """Make a key for a node and tell the SuperLink."""
        write_node_key(self.folder / f"node-{node}")
        done = self.flwr("supernode", "register", str(self.folder / f"node-{node}.pub"), NAME)
        assert done.returncode == 0, done.stdout + done.stderr

    def start_node(
        self, node: int | str, share: int | str, name: str = "", *, again: bool = False
    ) -> None:
        """Start a SuperNode with its share of the data; ``again`` and again until it is let in."""
        data = self.folder / f"share-{share}.npz"
        service = ["sh", "-c", 'until "$0" "$@"; do sleep 2; done'] if again else []
        self.start(
            f"node-{node}",
            *service,
            "flower-supernode",
            *("--superlink", f"{self.host}:{self.port}"),
            *("--root-certificates", str(self.folder / "ca.pem")),
            *("--auth-supernode-private-key", str(self.folder / f"node-{node}")),
            *("--port", str(free_port())),
            *("--node-config", f'data="{data}" name="{name or f"client {node}"}"'),
            *("--max-wait-time", "180"),
        )


@contextmanager
def federation(folder: Path, nodes: int = 5, **options: Any) -> Iterator[Federation]:
    """A SuperLink and its registered SuperNodes, until the block is left."""
    made = Federation(folder, free_port(), **options)
    write_certificates(folder, [made.host])
    write_shares(folder, nodes)
    try:
        made.start_superlink()
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(made.register, range(nodes)))
        for node in range(nodes):
            made.start_node(node, node)
        yield made
    finally:
        for name in list(made.processes):
            made.end(name)


def read_record(out: Path) -> dict[str, Any]:
    """What the server says of a training; empty while it has said nothing."""
    try:
        told: dict[str, Any] = json.loads((out / "network.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return told
