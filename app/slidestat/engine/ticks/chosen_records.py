"""Records that are written because of their figures; keys' states have what was written last."""

from collections.abc import Mapping

import numpy as np

from slidestat.declare.statistics.runner import Answered, Runner
from slidestat.engine.clock import Advance
from slidestat.engine.emissions.last_written import NEVER_WRITTEN, Candidates, LastWritten
from slidestat.engine.keys.held_keys import HeldKeys
from slidestat.engine.keys.states import Beside
from slidestat.engine.records import NO_TIME
from slidestat.engine.ticks.queries import Hand, Queries
from slidestat.synopses.core.arrays import Bools, Integers


class ChosenRecords:
    """A follower of a partition's keys that chooses, answer by answer, what is written."""

    def __init__(
        self,
        keys: HeldKeys,
        last_written: LastWritten | None,
        *,
        is_new: bool = False,
        shows_due_alone: bool = False,
    ) -> None:
        """Create the follower; `last_written` is None where figures do not decide. If it `is_new`,
        emissions that are out were written by another rule. With `shows_due_alone`, others than the
        due answers are asked for, and not written.
        """
        self._keys = keys
        self._last_written = last_written
        self._is_new = is_new
        self._shows_due_alone = shows_due_alone

    def __bool__(self) -> bool:
        """Return whether figures decide what is written."""
        return self._last_written is not None

    def on(self, keys: HeldKeys) -> "ChosenRecords":
        """Return the same follower of other keys."""
        rule = {"is_new": self._is_new, "shows_due_alone": self._shows_due_alone}
        return ChosenRecords(keys, self._last_written, **rule)

    def kept(self, written: bytes, *, is_new: bool) -> bytes:
        """Return what is kept of the last record of a key whose state is written, with `written`
        before; `is_new` if the key begins anew.
        """
        if self._last_written is None:
            return b""
        if is_new:
            # Told apart from a key that was written by another rule.
            return NEVER_WRITTEN if self._last_written.has_condition else b""
        return written

    def choose(
        self,
        hand: Hand,
        answered: Mapping[Runner, Answered],
        queries: Queries,
        is_shown: Bools,
        due: Queries,
        lives: tuple[Integers, Integers],
        advance: Advance,
    ) -> Bools:
        """Choose which of the answers that are shown are written, bool[n], and keep what is written
        in the keys' states. `due` are the queries that are asked for whatever the figures
        are; `lives` are how often each key of the hand was forgotten in all, and before each query.
        """
        written = hand.states.written
        if self._last_written is None:
            if self._shows_due_alone:
                is_shown = is_shown & queries.are_in(due.distinct())
            if written:
                # A record that was written now, by another rule, is not kept.
                groups, first = np.unique(queries.groups[is_shown], return_index=True)
                is_kept = np.array([group in written for group in groups.tolist()], bool)
                groups, first = groups[is_kept], np.flatnonzero(is_shown)[first[is_kept]]
                self._keep(hand, queries, groups, [b""] * len(groups), first, advance)
            return is_shown
        chosen = self._last_written.choose(
            [written.get(place, b"") for place in range(len(hand.names))],
            hand.states.last_times == NO_TIME,
            lives[0],
            Candidates(
                queries.groups, lives[1], queries.times, is_shown, queries.are_in(due.distinct())
            ),
            answered,
            advance.loss,
            advance.emitted if self._is_new else NO_TIME,
        )
        self._keep(hand, queries, chosen.groups, chosen.kept, chosen.first, advance)
        return chosen.wanted

    def _keep(
        self,
        hand: Hand,
        queries: Queries,
        groups: Integers,
        kept: list[bytes],
        first: Integers,
        advance: Advance,
    ) -> None:
        if not len(groups):
            return
        # The last query of each key: up to there it is followed.
        last = np.searchsorted(queries.groups, groups, "right") - 1
        offsets = advance.source_offsets(queries.times[first])
        changes = [
            Beside(hand.names[group], kept_now, tick, offset)
            for group, kept_now, tick, offset in zip(
                groups.tolist(), kept, queries.times[last].tolist(), offsets.tolist(), strict=True
            )
        ]
        self._keys.keep_beside("written", changes, advance.last_offset)
