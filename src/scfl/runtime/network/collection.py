"""The coded data on its way in: who is asked for which piece, and who is through with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scfl.core.coding import CodedData
from scfl.errors import RunError
from scfl.methods.protocol import Plan
from scfl.runtime.network.clients import Client
from scfl.runtime.network.terms import Terms
from scfl.runtime.network.upload import Upload, assemble_code, open_uploads
from scfl.runtime.network.wire import CodePart, Message


@dataclass(frozen=True, eq=False)
class Collection:
    """Everybody's uploads, in ``folder``."""

    terms: Terms
    folder: Path
    send: Callable[[str, Message], None]
    tell: Callable[[str], None]
    refuse: Callable[[str, str], None]

    def ask(self, client: Client, plan: Plan, now: float) -> None:
        """Ask a client for its coded data, from where an earlier upload stopped."""
        assert client.number is not None
        uploads = self._open(plan)
        if not uploads:
            client.stage = "ready"
            return
        client.upload = uploads[client.number]
        client.upload_began_at = now
        client.stage = "ready" if client.upload.complete else "uploading"
        self.go_on(client)

    def go_on(self, client: Client) -> None:
        """Ask for the next piece, if one is missing and the client still counts."""
        if client.stage == "uploading":
            assert client.upload is not None
            assert client.key is not None
            self.send(client.key, client.upload.next_request())

    def take(self, client: Client, part: CodePart, at: float) -> str | None:
        """Keep a piece; say why if it does not count."""
        assert client.upload is not None
        if not client.encoding_s:
            client.encoding_s = at - client.upload_began_at
        try:
            why = client.upload.take(part)
        except OSError as error:
            raise RunError(
                f"{client.upload.folder} cannot take the upload of {client.name} "
                f"({error.strerror}); make room and start again: uploads go on where they stopped"
            ) from None
        if why is None and client.upload.complete:
            client.upload_s = at - client.upload_began_at - client.encoding_s
            self._inspect(client, client.upload)
        return why

    def _inspect(self, client: Client, upload: Upload) -> None:
        assert client.key is not None
        _, why = upload.inspect()
        if why is None:
            client.stage = "ready"
            self.tell(f"{client.name} has sent its coded data")
            return
        upload.forget()
        self.refuse(client.key, why)

    def assemble(self, members: Sequence[int], plan: Plan, cut: Plan) -> CodedData | None:
        """The coded data of some of the plan's clients, whose part of the plan is ``cut``."""
        uploads = self._open(plan)
        return assemble_code([uploads[number] for number in members], cut) if uploads else None

    def _open(self, plan: Plan) -> list[Upload]:
        return open_uploads(self.folder, plan, np.dtype(self.terms.dtype))
