"""A training on a network from the first client to the last round, without touching the network.

    enrolling -> coding -> training -> done

Whoever drives it (the stream lane, the messages lane, a test with a script) tells it who joined,
who left, what came and what time it is, and carries ``outgoing`` away. It decides everything else:
whom to let in, when there are enough, what is asked, what counts, when a round is over, what is
kept on disk. Nothing waits in here, so nobody can make it wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from scfl.core.fleet import Fleet
from scfl.core.sampling import subset_count
from scfl.errors import RunError
from scfl.methods.protocol import Plan, ServerOnly, State
from scfl.runtime.network.attendance import Attendance
from scfl.runtime.network.clients import Client
from scfl.runtime.network.collection import Collection
from scfl.runtime.network.enrolment import Enrolment
from scfl.runtime.network.estimate import start_estimate
from scfl.runtime.network.ledger import LedgerBook
from scfl.runtime.network.membership import cut_plan
from scfl.runtime.network.roster import Roster
from scfl.runtime.network.terms import Terms
from scfl.runtime.network.training import STALE, Training
from scfl.runtime.network.watching import Curve, Watcher
from scfl.runtime.network.wire import CodePart, Gradient, Message, Stop
from scfl.runtime.stability import foresee_stability

Phase = Literal["enrolling", "coding", "training", "done"]

# So many answers that are no use, and a client is not asked again.
_MOST_REFUSALS = 20
# Looked at the clock at least so often, while something is waited for.
_LONGEST_SLEEP_S = 1.0


@dataclass(frozen=True)
class Event:
    """Something that the person who runs this may want to know."""

    at: float
    sentence: str


@dataclass(eq=False)
class Session:
    """The server's side of the protocol.

    ``folder`` takes uploads and checkpoints. ``limit`` is asked before each round, with the number
    of gradients that each client has been asked for, and may end the training with a sentence, such
    as that the privacy budget is spent; before the first upload, where that would be so at once.
    """

    terms: Terms
    folder: Path
    started_at: float
    watcher: Watcher = field(default_factory=Watcher)
    limit: Callable[[Plan, int], str | None] = lambda plan, rounds: None
    save: Callable[[Session], None] = lambda session: None
    server_macs_per_s: float = 1e9
    outgoing: deque[tuple[str, Message]] = field(default_factory=deque)
    events: list[Event] = field(default_factory=list)
    book: LedgerBook = field(default_factory=LedgerBook)
    curve: Curve = field(default_factory=Curve)
    phase: Phase = "enrolling"
    ended: str = ""
    failed: bool = False
    members: list[int] = field(default_factory=list)
    training: Training | None = None
    phase_began_at: float = 0.0
    training_began_at: float = 0.0
    now: float = 0.0
    checkpointed: int = -1
    asked: int = 0

    def __post_init__(self) -> None:
        self.now = self.phase_began_at = self.started_at
        self.enrolment = Enrolment(self.terms, self._send, self._tell)
        self.attendance = Attendance(self.terms)
        self.roster = Roster(self.terms, self.server_macs_per_s)
        self.collection = Collection(
            self.terms, self.folder / "uploads", self._send, self._tell, self.enrolment.refuse
        )

    @property
    def order(self) -> list[Client]:
        """Clients by their number."""
        return self.roster.order

    @property
    def plan(self) -> Plan | None:
        """The plan of all who have a number."""
        return self.roster.plan

    @property
    def fleet(self) -> Fleet | None:
        """Their machines."""
        return self.roster.fleet

    # What a driver calls.

    def join(self, key: str, at: float) -> None:
        """The lane has let somebody in."""
        self.now = at
        if self.phase == "done":
            self._send(key, Stop(self.ended))
        else:
            self._lose(key)
            self.enrolment.join(key)

    def leave(self, key: str, at: float) -> None:
        """Somebody's connection is gone."""
        self.now = at
        self._lose(key)

    def receive(self, key: str, message: Message, at: float) -> None:
        """Something came ``at`` some time."""
        self.now = max(self.now, at)
        if self.phase == "done" or key not in self.enrolment.by_key:
            return
        if not self.enrolment.take(key, message, at):
            client = self.enrolment.by_key[key]
            if client is None or client.stage == "out":
                return
            if isinstance(message, Gradient):
                self._take_gradient(client, message, at)
            elif isinstance(message, CodePart) and client.stage == "uploading":
                why = self.collection.take(client, message, at)
                if why is not None:
                    self._count_refusal(client, why)
                self.collection.go_on(client)
            else:
                self._count_refusal(client, f"a message {message.kind!r} that nobody asked for")
        self._move_on(key, at)

    def complain(self, key: str, why: str, at: float) -> None:
        """A frame came that was no message."""
        self.now = at
        client = self.enrolment.by_key.get(key)
        if client is None:
            return
        place = self._place(client)
        if place is not None and self.training is not None:
            self.training.refuse(place, why)
        self._count_refusal(client, why)

    def compute(self) -> bool:
        """Do a piece of the server's own arithmetic; False when there is none."""
        return self.training is not None and self.training.compute()

    def advance(self, now: float) -> None:
        """Time has passed."""
        self.now = now
        if self.phase == "enrolling":
            self._enrol(now)
        if self.phase == "coding":
            self._start_when_coded(now)
        if self.phase == "training":
            self._play(now)

    @property
    def wake_at(self) -> float:
        """When to call ``advance`` at the latest."""
        current = None if self.training is None else self.training.open
        if current is not None:
            return current.closes_at
        return self.now + _LONGEST_SLEEP_S

    def resume(self, members: list[int], state: State, *, began_at: float) -> None:
        """Go on where another server stopped; the members have a moment to come back."""
        self._take_in(members, state)
        self.phase, self.training_began_at, self.checkpointed = "training", began_at, state.round
        expected = {self.order[number].name for number in members}
        self.attendance = Attendance(self.terms, expected, self.started_at)
        self._tell(f"training goes on after round {state.round}")

    def stop(self, reason: str, *, failed: bool = False) -> None:
        """End it: keep what there is, and send everybody home."""
        if self.phase == "done":
            return
        self.phase, self.ended, self.failed = "done", reason, failed
        self._tell(reason)
        for key in self.enrolment.by_key:
            self._send(key, Stop(reason))
        if self.training is not None:
            self.training.open = None
            self.save(self)

    # Coming and going.

    def _lose(self, key: str) -> None:
        client = self.enrolment.leave(key)
        place = None if client is None else self._place(client)
        if place is not None and self.training is not None:
            self.training.lose(place)

    def _move_on(self, key: str, at: float) -> None:
        """Somebody may just have been measured: give it its place, or its place back."""
        client = self.enrolment.by_key.get(key)
        if client is None or client.stage != "measured" or self.plan is None:
            return
        if client.number is None:
            why = self.roster.add(client, self.enrolment.message_bytes)
            if why is not None:
                self.enrolment.refuse(key, why)
                return
        self.collection.ask(client, self.plan, at)

    def _enrol(self, now: float) -> None:
        agreed = self.enrolment.agreed
        founders = self.enrolment.gather(now - self.phase_began_at)
        if self.enrolment.agreed > agreed:
            self.phase_began_at = now
        if founders is not None:
            self._make_plan(founders, now)

    def _make_plan(self, founders: list[Client], now: float) -> None:
        plan = self.roster.make(founders, self.enrolment.message_bytes)
        over = self.limit(plan, 0)
        if over is not None:  # before anything has been told
            raise RunError(over)
        self.phase, self.phase_began_at = "coding", now
        self._tell(f"{len(founders)} clients with {plan.shape.rows} rows are ready")
        for client in founders:
            if client.here:
                self.collection.ask(client, plan, now)

    def _start_when_coded(self, now: float) -> None:
        waiting = [c for c in self.order if c.stage not in {"ready", "out"}]
        ready = [c.number for c in self.order if c.stage == "ready" and c.number is not None]
        late = now - self.phase_began_at >= self.terms.setup_s
        if waiting and not late:
            return
        if len(ready) < self.terms.enough:
            names = ", ".join(client.name for client in self.order if client.stage != "ready")
            raise RunError(
                f"{len(ready)} clients sent their coded data, {self.terms.enough} are needed; "
                f"without: {names}; give setup_s more than {self.terms.setup_s:g} s or start again"
            )
        self._start_training(ready, now)

    def _start_training(self, members: list[int], now: float) -> None:
        assert self.plan is not None
        shape = self.plan.shape
        zero = np.zeros((shape.features, shape.outputs), dtype=self.terms.dtype)
        self._take_in(members, State(zero, zero))
        self.phase, self.training_began_at = "training", now
        self._look()
        self._tell(f"training begins with {len(members)} clients")
        # From now on clients are asked for gradients, and whoever starts this again has to know it.
        self.save(self)
        assert self.training is not None
        seen = foresee_stability(self.roster.method, self.training.plan, self.training.held)
        if seen is not None and seen.warning is not None:
            self._tell(f"warning: {seen.warning}")

    def _take_in(self, members: list[int], state: State) -> None:
        """Train with these members from now on, from where training stands."""
        assert self.plan is not None
        before = self.training
        self.members = members
        plan = cut_plan(self.plan, members)
        prior = plan.arrival_probability
        prior = np.where(plan.loads > 0, 0.9, 0.0) if prior is None else prior
        estimate = start_estimate(prior)
        if before is not None:
            before.held = None  # what comes next is as large
            estimate = before.estimate
            for added in range(len(estimate.prior), len(members)):
                estimate = estimate.grow(float(prior[added]))
        self.training = Training(
            method=self.roster.method,
            plan=plan,
            held=self.collection.assemble(members, self.plan, plan),
            state=state,
            estimate=estimate,
            seed=self.terms.seed,
            patience_s=self.terms.patience_s,
            learn=self.terms.learn_arrivals,
        )
        if before is not None:
            self.training.sizes, self.training.silent = before.sizes, before.silent
        self.watcher.hold(plan, self.training.held, self.enrolment.classes)

    # Rounds.

    def _take_gradient(self, client: Client, answer: Gradient, at: float) -> None:
        training, place = self.training, self._place(client)
        if training is None or place is None:
            self._count_refusal(client, "a gradient that nobody asked for")
            return
        assert client.number is not None
        why = training.take(place, answer, at)
        if why == STALE and answer.array.nbytes == self.enrolment.message_bytes:
            self.book.note_late(answer.round, client.number, at, answer.array.nbytes)
        if why is not None:
            self._count_refusal(client, why)

    def _place(self, client: Client) -> int | None:
        """A member's place in the training."""
        number = client.number
        return self.members.index(number) if number in self.members else None

    def _count_refusal(self, client: Client, why: str) -> None:
        """Somebody's answer does not count, nor does its sender so much; in the end it is out."""
        self.book.refusals[client.name, why.partition(" of ")[0]] += 1
        if why == STALE:
            return
        place = self._place(client)
        if place is not None and self.training is not None:
            self.training.distrust(place)
        self._tell(f"{client.name}: an answer does not count: {why}")
        client.refused += 1
        if client.refused >= _MOST_REFUSALS and client.key is not None:
            self._lose_for_good(client, f"{client.refused} answers that could not be used")

    def _lose_for_good(self, client: Client, why: str) -> None:
        key = client.key
        assert key is not None
        self.enrolment.refuse(key, why)
        self._lose(key)

    def _play(self, now: float) -> None:
        training = self.training
        assert training is not None
        if training.is_over(now):
            self._close(now)
        if self.phase == "training" and (self.training is None or self.training.open is None):
            self._open(now)

    def _open(self, now: float) -> None:
        self._admit_newcomers()
        training = self.training
        assert training is not None
        if training.state.round >= self._rounds:
            self.stop(f"all {training.state.round} rounds are done")
            return
        over = self.limit(training.plan, self.asked)
        if over is not None:
            self.stop(over)
            return
        here = np.array([self._is_here(number) for number in self.members])
        names = {self.order[number].name for number in np.array(self.members)[here]}
        useful, waits = here & (training.plan.loads > 0), training.plan.wait
        if not isinstance(waits, ServerOnly) and not self.attendance.suffices(
            names, bool(useful.any()), now, training.state.round
        ):
            return
        asked = training.open_round(now, here)
        self.asked += bool(asked)
        for place, work in asked:
            key = self.order[self.members[place]].key
            assert key is not None
            self._send(key, work)

    @property
    def _rounds(self) -> int:
        most = None if self.plan is None else self.plan.rounds
        return self.terms.rounds if most is None else min(most, self.terms.rounds)

    def _is_here(self, number: int) -> bool:
        client = self.order[number]
        return client.here and client.stage == "ready"

    def _admit_newcomers(self) -> None:
        """Between rounds, whoever is through with its upload becomes a member."""
        ready = [c.number for c in self.order if c.stage == "ready" and c.number is not None]
        new = [number for number in ready if number not in self.members]
        if new and self.training is not None:
            names = ", ".join(self.order[number].name for number in new)
            self._tell(f"{names} takes part from round {self.training.state.round + 1} on")
            self._take_in([*self.members, *new], self.training.state)

    def _close(self, now: float) -> None:
        training = self.training
        assert training is not None
        closed = training.close_round()
        for place, why in closed.refused.items():
            client = self.order[self.members[place]]
            if "usual size" in why:
                self._count_refusal(client, f"too large, {why}")
        if training.failed is not None:
            self._look()
            self.stop(training.failed, failed=True)
            return
        self.book.write(
            closed, self.members, self.enrolment.message_bytes, now - self.training_began_at
        )
        done = training.state.round
        if done >= self._rounds or done % self.terms.evaluate_every == 0:
            self._look()
        if done % self.terms.checkpoint_every == 0:
            self.checkpoint()

    def _look(self) -> None:
        assert self.training is not None
        moved = self.book.totals(len(self.order))
        self.watcher.look(
            self.curve,
            self.training.state,
            self.book.closed_s[-1] if self.book.closed_s else 0.0,
            float(moved["bytes_up"].sum()),
            float(moved["bytes_down"].sum()),
        )

    @property
    def most_asked(self) -> int:
        """How often a client may have been asked before a later checkpoint says so.

        Who is killed has asked for rounds that nobody remembers, and asks for them again. Each
        subset of the rows then had at most two turns more than in as many rounds from the start.
        """
        if self.phase == "done" or self.plan is None:
            return self.asked
        subsets, forgotten = subset_count(self.plan.sampling), self.terms.checkpoint_every
        return self.asked + subsets * (forgotten // subsets + (2 if subsets > 1 else 0))

    # Small things.

    def checkpoint(self) -> None:
        """Write down where training stands."""
        if self.training is not None and self.checkpointed != self.training.state.round:
            self.save(self)
            self.checkpointed = self.training.state.round

    def _send(self, key: str, message: Message) -> None:
        self.outgoing.append((key, message))

    def _tell(self, sentence: str) -> None:
        self.events.append(Event(self.now - self.started_at, sentence))
