"""The names that follow from a declaration's own: its group, its table and the topics it writes."""

import re
from dataclasses import fields
from typing import Any

from slidestat.errors import SlidestatError

# Kafka allows 249 characters in a topic's name; the longest suffix and a changelog's name must fit.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# What to do about a name that cannot be.
NAME_RULE = "Use 1 to 100 letters, digits, '.', '_' and '-', beginning with a letter or digit."


def check_digits(declaration: Any) -> None:
    """Raise SlidestatError for a whole number of so many digits that no message can show it."""
    for field in fields(declaration):
        try:
            repr(getattr(declaration, field.name))
        except ValueError:
            raise SlidestatError(
                f"{field.name} has a whole number of thousands of digits.", "Give another one."
            ) from None


class Named:
    """A declaration with a `name`, and a consumer `group` that is named alike by default."""

    name: str
    group: str

    def check_names(self) -> None:
        """Raise SlidestatError for names that cannot be."""
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise SlidestatError(
                f"name is {self.name!r}, which cannot stand in a topic's name.", NAME_RULE
            )
        if not isinstance(self.group, str) or (self.group and not NAME.fullmatch(self.group)):
            raise SlidestatError(
                f"group is {self.group!r}, which cannot name a consumer group.", NAME_RULE
            )

    @property
    def group_name(self) -> str:
        """Return the consumer group, which topologies of one worker share."""
        return self.group or self.name

    @property
    def application_id(self) -> str:
        """The consumer group, and the prefix of the changelog and of the data folder."""
        return f"slidestat-{self.group_name}"

    @property
    def table_name(self) -> str:
        return f"{self.name}-state"

    @property
    def changelog_topic(self) -> str:
        """The changelog of the application's table, as Faust names it."""
        return f"{self.application_id}-{self.table_name}-changelog"

    @property
    def output_topic(self) -> str:
        return f"{self._output_prefix}-statistics"

    @property
    def dead_letter_topic(self) -> str:
        return f"{self._output_prefix}-dead-letters"

    @property
    def late_topic(self) -> str:
        return f"{self._output_prefix}-late"

    @property
    def alert_topic(self) -> str | None:
        """The topic of changes of its alerts; None if it has none."""
        return None

    @property
    def _output_prefix(self) -> str:
        return self.name
