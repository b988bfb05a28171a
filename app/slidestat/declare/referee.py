"""A referee: what is answered over the streams of all partitions together, declared."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from slidestat.declare.derived import EMIT_CHANGE, EMIT_WINDOWS, EMITS
from slidestat.declare.naming import Named
from slidestat.declare.topology import PARTITION, Topology
from slidestat.declare.values import check_choice, check_values
from slidestat.errors import SlidestatError
from slidestat.options import JSON

_OUTPUT_FORMATS = ("json", "avro")
NEWEST_IS_PROVISIONAL = (
    "an answer without a party may be the newest record of its stream, and no final one need"
    " follow it."
)
"""The reason why figures do not decide when a referee answers."""


@dataclass(frozen=True, kw_only=True)
class Referee(Named):
    """The statistics of a topology that publishes, over all of its partitions together.

    Source: the Referee of Gibbons and Tirthapura 2002, section 3.4: parties see a part of a stream
    each, and what they send is combined into one answer. A party is a partition of the source.

    An answer follows each tick after events, and those of `emit`, when all parties have come to it.
    Memory is that of the synopses of as many ticks as the parties are apart, at most those of
    `correctable`.

    Of a topology with `rankings` it writes these alone, of the keys of all partitions, to the topic
    NAME-rankings.

    of: the topology whose partitions are the parties; it has a `publish`, or `rankings`. In TOML it
    is the name of one that ships, or a file, seen from the referee's own.
    patience: how far a party may lie behind the furthest one, in event time (of a sequence, in
    events), before an answer that waits for it is given without it, as provisional, naming it.
    correctable: for how long an answer without a party can be completed, in event time: it is then
    given again, with the party, under the same key. A party that comes later is left out. At least
    the patience, and of its kind.
    windows: the lengths answered for; without any, those of the topology.
    emit: when a stream without new events is answered for: "windows", at the first tick at which
    any of the windows, or the span, has none of them any more; "events", at that of the span alone;
    "always", at every tick as long as the span has one. It does not depend on the topology's.
    name: begins the names of its group, its state and the topics that it writes; without one, that
    of the topology with "-global" behind it.
    group: the consumer group of its workers is slidestat-GROUP; without one, the name is taken.
    output_format: that of the answers, "json" or "avro".

    Raises SlidestatError, naming the field, for what cannot be.
    """

    of: Topology
    patience: str
    correctable: str = "30d"
    windows: Sequence[str] = ()
    emit: str = EMIT_WINDOWS
    name: str = ""
    group: str = ""
    output_format: str = JSON

    # A referee has none of what follows; topologies do.
    counted = None
    publish = ()
    has_referee = False
    writes_rows = False
    alerts = ()
    repartition = False
    exactly_once = False
    marks_losses = False

    def __post_init__(self) -> None:
        check_values(self)
        if not isinstance(self.of, Topology) or not self.of.has_referee:
            raise SlidestatError(
                "of is no topology that publishes its synopses, and none with rankings.",
                f'Give the one whose partitions are to be united, with publish="{PARTITION}".',
            )
        if not self.name:
            object.__setattr__(self, "name", f"{self.of.name}-global")
        self.check_names()
        if self.name == self.of.name:
            raise SlidestatError(
                f"name is {self.name!r}, which is that of the topology.", "Give it another."
            )
        if self.output_format not in _OUTPUT_FORMATS:
            raise SlidestatError(
                f"output_format is {self.output_format!r}.", 'Give "json" or "avro".'
            )
        self._check_emit()
        self._check_rankings()
        if self.correctable_ms < self.patience_ms:
            raise SlidestatError(
                f"correctable is {self.correctable!r}, less than the patience {self.patience!r}.",
                "Lengthen it, or shorten the patience.",
            )
        _ = self.answering.window_lengths

    @cached_property
    def answering(self) -> Topology:
        """The topology, with the windows that are answered for, when there are events."""
        windows = self.windows or self.of.windows
        return replace(self.of, windows=windows, emit=self.emit)

    def _check_emit(self) -> None:
        if self.emit == EMIT_CHANGE:
            raise SlidestatError(
                f"emit is {self.emit!r}: {NEWEST_IS_PROVISIONAL}",
                'Give emit = "always": then each tick is answered for.',
            )
        check_choice("emit", self.emit, (mode for mode in EMITS if mode != EMIT_CHANGE))

    def _check_rankings(self) -> None:
        for field in ("windows", "emit", "output_format"):
            if self.of.rankings and getattr(self, field) != getattr(type(self), field):
                raise SlidestatError(
                    f"{field} is {getattr(self, field)!r}, and {self.of.name} has rankings, which"
                    " are written in JSON at each tick.",
                    "Leave it out.",
                )

    @property
    def output_topic(self) -> str:
        """The topic of the answers, or of the rankings."""
        return f"{self.name}-rankings" if self.of.rankings else super().output_topic

    @property
    def source(self) -> str:
        """The topic of the synopses."""
        return self.of.synopsis_topic

    @property
    def source_topics(self) -> tuple[str, ...]:
        return (self.source,)

    @property
    def read_topics(self) -> tuple[str, ...]:
        return self.source_topics

    @property
    def sources_text(self) -> str:
        return self.source

    @property
    def events_topic(self) -> str:
        """The topic that its workers read."""
        return self.source

    @property
    def patience_ms(self) -> int:
        return self.of.duration(self.patience, "patience")

    @property
    def correctable_ms(self) -> int:
        return self.of.duration(self.correctable, "correctable")

    @property
    def is_sequence(self) -> bool:
        """Return whether event times are numbers of a global sequence."""
        return self.of.is_sequence

    @property
    def idle_ms(self) -> int:
        """The idle timeout, 0: idle parties are not waited for once others are `patience` ahead."""
        return 0

    @property
    def state_meaning(self) -> dict[str, str]:
        """Return the fields that stored states depend on, as `Topology.state_meaning` does."""
        meaning = self.of.state_meaning
        rankings = {it.name: it.text for it in self.of.rankings}
        return {
            **({"rankings": f"{rankings}"} if rankings else {}),
            "group": self.group_name,
            "name": self.name,
            "source": self.source,
            "every": f"{self.of.every_ms} {self.of.times.unit}",
            "span": meaning["span"],
            "statistics": meaning["statistics"],
        }
