"""A ranking of keys at a tick, over all partitions of a topology's source.

The Kafka key of a record is the JSON array [topology, ranking, window_end_ms], its timestamp the
end of the windows. What the partitions publish for it, of the same tick, is in the topic of
synopses under [topology, "ranking", ranking, party].
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from slidestat.schemas.emission import AbsentParty
from slidestat.schemas.query import RankedKey, RankingPart


class Ranking(msgspec.Struct, frozen=True, omit_defaults=True):
    """The keys with the largest, or the smallest, values of a figure at a tick, in order.

    Each key's windows end at the tick. Keys whose figure does not exist, and keys without an event
    in the span, have no place. While partitions are absent it is provisional; the one that replaces
    it, under the same key, comes when all have come.
    """

    topology: Annotated[str, Meta(description="name of the referee")]
    ranking: Annotated[str, Meta(description="name of the ranking")]
    window_end_ms: Annotated[
        int, Meta(description="first millisecond after the windows, in event time")
    ]
    by: Annotated[str, Meta(description="name of the figure, with its window")]
    order: Annotated[Literal["largest", "smallest"], Meta(description="which of them comes first")]
    size: Annotated[int, Meta(description="how many places it has at most")]
    keys: Annotated[
        int, Meta(description="how many may have a place: they have the figure, and `having` holds")
    ]
    places: Annotated[list[RankedKey], Meta(description="in order")]
    source: Annotated[str, Meta(description="topic of what the partitions publish")]
    source_partition: Annotated[int, Meta(description="its partition")]
    source_offset: Annotated[
        int, Meta(description="offset of the clock with which the ranking was due")
    ]
    parties: Annotated[list[str], Meta(description="partitions whose keys are in it")]
    having: Annotated[
        str, Meta(description="only keys for which this may hold; left out without one")
    ] = ""
    provisional: Annotated[
        bool,
        Meta(
            description="whether it may lack keys: another record of the same key replaces it if"
            " they come"
        ),
    ] = False
    absent: Annotated[
        list[AbsentParty] | None,
        Meta(description="partitions whose keys are not in it; left out if there are none"),
    ] = None


class PublishedPart(RankingPart, frozen=True):
    """The keys of a partition that decide who has a place in the ranking that they are `of`."""

    of: str


decode_ranking = msgspec.json.Decoder(Ranking).decode
decode_part = msgspec.json.Decoder(PublishedPart).decode
