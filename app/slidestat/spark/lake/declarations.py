"""The declarations that a lake's emissions were computed by, each under its fingerprint.

LAKE/TOPOLOGY/declarations/FINGERPRINT.json is the declaration in plain tables. An ingest and a
backfill put there the one that they are given; an emission has its fingerprint in a header.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from pyspark.sql import SparkSession

from slidestat.declare.declared import Declared
from slidestat.declare.forms.resolved import fingerprint, resolved
from slidestat.errors import SlidestatError
from slidestat.spark.audit.declaration import UNMARKED, Declaration, declaration_of
from slidestat.spark.lake.files import LakeFiles
from slidestat.spark.lake.lake import Lake


def keep_declaration(spark: SparkSession, lake: Lake, declared: Declared) -> None:
    """Store a declaration in a lake, each once."""
    table = resolved(declared)
    file, files = _file(lake, fingerprint(table)), LakeFiles(spark)
    if not files.exists(file):
        files.write(file, msgspec.json.format(msgspec.json.encode(table), indent=2).decode() + "\n")


@dataclass(frozen=True)
class KnownDeclarations:
    """The declarations that a lake keeps, and `given`, the one that an audit is asked with."""

    spark: SparkSession
    lake: Lake
    given: Mapping[str, object]

    def of(self, emissions: Mapping[str, int]) -> dict[str, Declaration]:
        """Return the declaration of each fingerprint in `emissions`, which has their numbers of
        emissions; for unmarked ones the given declaration. Raises SlidestatError for those that the
        lake does not know.
        """
        files = LakeFiles(self.spark)
        mine = fingerprint(self.given)
        found: dict[str, Declaration] = {}
        unknown: dict[str, int] = {}
        for mark, count in emissions.items():
            if mark in (UNMARKED, mine):
                found[mark] = declaration_of(self.given)
            elif files.exists(_file(self.lake, mark)):
                found[mark] = self._read(files, mark)
            else:
                unknown[mark] = count
        if unknown:
            counts = ", ".join(f"{mark} ({count:,})" for mark, count in sorted(unknown.items()))
            raise SlidestatError(
                f"{sum(unknown.values()):,} emissions are of declarations of"
                f" {self.lake.topology!r} that this lake does not know: {counts}; the one given is"
                f" {mine}.",
                "Ingest once more with the topology as it was then: slidestat spark ingest"
                f" THAT.toml --lake {self.lake.root}; all else in it may be there already.",
            )
        return found

    def is_given(self, mark: str) -> bool:
        """Return whether it is the declaration that the audit is asked with."""
        return mark == fingerprint(self.given)

    def _read(self, files: LakeFiles, mark: str) -> Declaration:
        file = _file(self.lake, mark)
        try:
            table = json.loads(files.read(file))
            if fingerprint(table) == mark:
                return declaration_of(table)
        except (ValueError, msgspec.ValidationError):
            pass
        raise SlidestatError(
            f"{file} is damaged, or of a newer version.",
            "Delete it, and ingest once more with the topology as it was then.",
        )


def reading_groups(declarations: Mapping[str, Declaration]) -> list[dict[str, Declaration]]:
    """Return groups of the declarations that read the same of events."""
    groups: dict[object, dict[str, Declaration]] = {}
    for mark, declaration in declarations.items():
        groups.setdefault(declaration.reading, {})[mark] = declaration
    return list(groups.values())


def _file(lake: Lake, mark: str) -> str:
    return f"{lake.declarations}/{mark}.json"
