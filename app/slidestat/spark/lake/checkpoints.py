"""The owner of a folder's checkpoint, and how far it has read.

Spark keeps in a checkpoint's folder what each batch reads (offsets/N) and which are written
(commits/N). It would take up any checkpoint, of whatever job; so a file next to them has its owner.
"""

import json
from dataclasses import asdict, dataclass, replace
from uuid import uuid4

from pyspark.sql import SparkSession

from slidestat.errors import SlidestatError
from slidestat.options import Tables
from slidestat.spark.kafka import TopicState
from slidestat.spark.lake.files import LakeFiles
from slidestat.spark.lake.lake import Dataset, Lake

_OWNER = "slidestat.json"
_FORMAT = 1
# A version that knows no Delta tables would write files next to them: it must not take this up.
_FORMAT_OF_DELTA = 2
_TABLES = {_FORMAT: Tables.PARQUET, _FORMAT_OF_DELTA: Tables.DELTA}


@dataclass(frozen=True)
class Owner:
    """The topic and declaration of a checkpoint. `topic_identity` differs for a topic that was
    created again. In a lake of Delta tables its batches are those of an `application`: another name
    in every checkpoint, so that no batch is taken for one of the same number of a checkpoint before
    it.
    """

    job: str
    topology: str
    topic: str
    topic_identity: str
    format: int = _FORMAT
    application: str = ""

    @property
    def text(self) -> str:
        """Return the content of the file."""
        fields = asdict(self)
        if not self.application:  # As versions wrote it that knew no Delta tables, and read it.
            del fields["application"]
        return json.dumps(fields, indent=2) + "\n"


@dataclass(frozen=True)
class Claim:
    """A checkpoint that is this job's: what it has `read`, the next offset of each partition, none
    before the first batch; and whose its batches are in a Delta table, "" for Parquet files.
    """

    read: dict[int, int]
    application: str


def claim(
    spark: SparkSession, lake: Lake, dataset: Dataset, topic: TopicState, tables: Tables
) -> Claim:
    """Make the checkpoint of a dataset this topic's, if it has no owner.

    Raises SlidestatError for the checkpoint of something else or for other `tables`, and for data
    without a checkpoint: its batches would be written over.
    """
    files = LakeFiles(spark)
    folder = lake.checkpoint(dataset)
    wanted = Owner("ingest", lake.topology, topic.name, topic.identity)
    if tables is Tables.DELTA:
        wanted = replace(wanted, format=_FORMAT_OF_DELTA, application=uuid4().hex)
    owner = wanted
    if files.exists(f"{folder}/{_OWNER}"):
        owner = _require_same(folder, files.read(f"{folder}/{_OWNER}"), wanted)
    elif files.exists(f"{folder}/offsets"):
        raise SlidestatError(
            f"{folder} is the checkpoint of another program.", "Give another --lake."
        )
    elif files.exists(lake.backfilled):
        raise SlidestatError(
            f"{lake.folder} was filled by a backfill, which an ingest cannot go on from.",
            "Give another --lake.",
        )
    elif lake.has(spark, dataset):
        raise SlidestatError(
            f"{lake.data(dataset)} has records, and their checkpoint {folder} is gone.",
            "Bring the checkpoint back, or give another --lake and ingest anew.",
        )
    else:
        files.write(f"{folder}/{_OWNER}", wanted.text)
    return Claim(_read_so_far(files, folder, topic.name), owner.application)


def _require_same(folder: str, text: str, wanted: Owner) -> Owner:
    try:
        found = Owner(**json.loads(text))
        begun = _TABLES[found.format]
    except (ValueError, TypeError, LookupError) as error:
        raise SlidestatError(
            f"{folder}/{_OWNER} is damaged or of a newer version.",
            "Use that version, or give another --lake.",
        ) from error
    if replace(found, application=wanted.application) == wanted:
        return found
    if replace(found, application=wanted.application, format=wanted.format) == wanted:
        raise SlidestatError(
            f"{folder} is the checkpoint of an ingest with --tables {begun}.",
            "Give the same to go on with it, or give another --lake.",
        )
    if (found.topic, found.job) == (wanted.topic, wanted.job):
        raise SlidestatError(
            f"{folder} is the checkpoint of another topic {found.topic!r}: that one was deleted, "
            "and this one made since.",
            "Give another --lake for the new topic; the old lake stays as it is.",
        )
    raise SlidestatError(
        f"{folder} is the checkpoint of another job: {found.job} of {found.topic}, "
        f"not {wanted.job} of {wanted.topic}.",
        "Give another --lake.",
    )


def _read_so_far(files: LakeFiles, folder: str, topic: str) -> dict[int, int]:
    commits = [int(name) for name in files.names(f"{folder}/commits") if name.isdecimal()]
    if not commits:
        return {}
    # A line of version, one of Spark's settings, one of offsets for each source.
    offsets = json.loads(files.read(f"{folder}/offsets/{max(commits)}").splitlines()[-1])
    return {int(partition): offset for partition, offset in offsets[topic].items()}
