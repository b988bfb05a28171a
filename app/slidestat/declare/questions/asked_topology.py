"""A topology with the windows and statistics that are asked for, of what another one keeps."""

from dataclasses import dataclass, fields
from typing import Any

from slidestat.declare.topology import Topology


@dataclass(frozen=True, kw_only=True)
class AskedTopology(Topology):
    """A declared topology with other windows and statistics, those that are asked for; its states
    are those that `kept_by` keeps.
    """

    kept_by: Topology

    @property
    def states_of(self) -> Topology:
        """The topology whose states are kept."""
        return self.kept_by


def asked_topology(kept_by: Topology, **asked: Any) -> AskedTopology:
    """Return `kept_by` with the fields `asked`; raises SlidestatError for what cannot be."""
    declared = {field.name: getattr(kept_by, field.name) for field in fields(kept_by)}
    return AskedTopology(**{**declared, **asked}, kept_by=kept_by)
