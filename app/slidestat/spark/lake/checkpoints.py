"""Whose checkpoint a folder has, and how far it has read.

Spark keeps in a checkpoint's folder what each batch reads (offsets/N) and which are written
(commits/N). It would take up any checkpoint, of whatever job; so a file beside them says whose it
is.
"""

import json
from dataclasses import asdict, dataclass

from pyspark.sql import SparkSession

from slidestat.errors import SlidestatError
from slidestat.spark.lake.kafka_topic import TopicState
from slidestat.spark.lake.lake import Dataset, Lake
from slidestat.spark.lake.lake_files import LakeFiles

_OWNER = "slidestat.json"
_FORMAT = 1


@dataclass(frozen=True)
class Owner:
    """The topic and declaration of a checkpoint. `topic_identity` differs for a topic that was made
    anew.
    """

    job: str
    topology: str
    topic: str
    topic_identity: str
    format: int = _FORMAT


def claim(spark: SparkSession, lake: Lake, dataset: Dataset, topic: TopicState) -> dict[int, int]:
    """Make the checkpoint of a dataset this topic's, if it is nobody's; what it has read: the next
    offset of each partition, none before the first batch.

    Raises SlidestatError for the checkpoint of something else, and for data without a checkpoint:
    its batches would be written over.
    """
    files = LakeFiles(spark)
    folder = lake.checkpoint(dataset)
    wanted = Owner("ingest", lake.topology, topic.name, topic.identity)
    if files.exists(f"{folder}/{_OWNER}"):
        _require_same(folder, files.read(f"{folder}/{_OWNER}"), wanted)
    elif files.exists(f"{folder}/offsets"):
        raise SlidestatError(
            f"{folder} is the checkpoint of another program.", "Give another --lake."
        )
    elif lake.has(spark, dataset):
        raise SlidestatError(
            f"{lake.data(dataset)} has records, and their checkpoint {folder} is gone.",
            "Bring the checkpoint back, or give another --lake and ingest anew.",
        )
    else:
        files.write(f"{folder}/{_OWNER}", json.dumps(asdict(wanted), indent=2) + "\n")
    return _read_so_far(files, folder, topic.name)


def _require_same(folder: str, text: str, wanted: Owner) -> None:
    try:
        found = Owner(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise SlidestatError(
            f"{folder}/{_OWNER} is damaged or of a newer version.",
            "Use that version, or give another --lake.",
        ) from error
    if found == wanted:
        return
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
