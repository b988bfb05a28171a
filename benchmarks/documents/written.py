"""The measured figures that documents tell, written into them from results/*.json.

    python -m benchmarks.documents.written      # make figures

What stands between `<!-- figures: NAME -->` and `<!-- end of figures -->` is the text of that name
below. The tests hold documents to it: a figure in them is one of results/, or they fail.
"""

import re
from collections.abc import Callable

from benchmarks import REPOSITORY
from benchmarks.documents import measured_sizes, measured_speed, measured_synopses
from benchmarks.harness.command import typed

_ROOT = REPOSITORY
TEXTS: dict[str, Callable[[], str]] = {
    "deciding": measured_speed.deciding,
    "deciding_keys": measured_speed.deciding_keys,
    "comparison": measured_speed.comparison,
    "workloads": measured_speed.workloads,
    "scaling": measured_speed.scaling,
    "questions": measured_speed.questions,
    "streaming": measured_speed.streaming,
    "space": measured_synopses.space,
    "accuracy": measured_synopses.accuracy,
    "statistics": measured_sizes.statistics,
    "cost": measured_sizes.cost,
    "whole_set": measured_sizes.whole_set,
    "many_keys": measured_sizes.many_keys,
    "question_times": measured_sizes.question_times,
    "sketches": measured_sizes.sketches,
    "one_window": measured_sizes.one_window,
    "flights": measured_sizes.flights,
    "audit": measured_sizes.audit,
    "sql_aggregates": measured_sizes.sql_aggregates,
}
DOCUMENTS = tuple(
    _ROOT / name
    for name in (
        "README.md",
        "docs/ask-a-worker.md",
        "docs/compare.md",
        "docs/choose-a-statistic.md",
        "docs/deploy.md",
        "docs/many-parties.md",
        "docs/spark.md",
        "docs/spark-streaming.md",
    )
)
_PLACE = re.compile(
    r"(?<=<!-- figures: )(?P<name>\w+)(?P<open> -->\n)(?P<text>.*?)(?=<!-- end of figures -->)",
    re.DOTALL,
)


def renewed(text: str) -> str:
    """A document's text with the figures of now."""
    return _PLACE.sub(lambda m: f"{m['name']}{m['open']}\n{TEXTS[m['name']]()}\n\n", text)


def places(text: str) -> list[str]:
    """The names of the figures that a document has."""
    return [match["name"] for match in _PLACE.finditer(text)]


def main() -> None:
    """Write them into all documents that have them."""
    for document in DOCUMENTS:
        text = document.read_text("utf-8")
        if (now := renewed(text)) != text:
            document.write_text(now, "utf-8")
            print(f"written: {document.relative_to(_ROOT)}")


if __name__ == "__main__":
    typed(__doc__)
    main()
