"""A ranking of keys at a tick, over all partitions of a topology's source.

The Kafka key of a record is the JSON array [topology, ranking, window_end_ms], its timestamp the
end of the windows. What the partitions publish for it, of the same tick, is in the topic of
synopses under [topology, "ranking", ranking, party].
"""

from typing import Annotated, Literal

import msgspec

from slidestat.schemas import doc
from slidestat.schemas.emission import AbsentParty
from slidestat.schemas.query import RankedKey, RankingPart


class Ranking(msgspec.Struct, frozen=True, omit_defaults=True):
    """The keys with the largest, or the smallest, values of a figure at a tick, in order.

    Each key's windows end at the tick. Keys whose figure does not exist, and keys without an event
    in the span, have no place. While partitions are absent it is provisional; the one that replaces
    it, under the same key, comes when all have come.
    """

    topology: Annotated[str, doc("name of the referee")]
    ranking: Annotated[str, doc("name of the ranking")]
    window_end_ms: Annotated[int, doc("first millisecond after the windows, in event time")]
    by: Annotated[str, doc("name of the figure, with its window")]
    order: Annotated[Literal["largest", "smallest"], doc("which of them comes first")]
    size: Annotated[int, doc("how many places it has at most")]
    keys: Annotated[int, doc("how many may have a place: they have the figure, and `having` holds")]
    places: Annotated[list[RankedKey], doc("in order")]
    source: Annotated[str, doc("topic of what the partitions publish")]
    source_partition: Annotated[int, doc("its partition")]
    source_offset: Annotated[int, doc("offset of the clock with which the ranking was due")]
    parties: Annotated[list[str], doc("partitions whose keys are in it")]
    having: Annotated[str, doc("only keys for which this may hold; left out without one")] = ""
    provisional: Annotated[
        bool,
        doc("whether it may lack keys: another record of the same key replaces it if they come"),
    ] = False
    absent: Annotated[
        list[AbsentParty] | None,
        doc("partitions whose keys are not in it; left out if there are none"),
    ] = None


class PublishedPart(RankingPart, frozen=True):
    """The keys of a partition that decide who has a place in the ranking that they are `of`."""

    of: str


decode_ranking = msgspec.json.Decoder(Ranking).decode
decode_part = msgspec.json.Decoder(PublishedPart).decode
