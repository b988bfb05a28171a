"""The names that follow from a declaration's own: its group, its table and the topics it writes;
and the texts of alerts.
"""

import re
from collections.abc import Collection, Iterable, Mapping

from slidestat.errors import SlidestatError
from slidestat.redaction import redacted

# Kafka allows 249 characters in a topic's name; the longest suffix and a changelog's name must fit.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# The advice about a name that is not allowed.
NAME_RULE = "Use 1 to 100 letters, digits, '.', '_' and '-', beginning with a letter or digit."


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
    def transactional_prefix(self) -> str:
        """The prefix of the transactional ids; all owners of a partition share one id."""
        return f"slidestat-{self.name}-"

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
    def written_topics(self) -> tuple[str, ...]:
        """The topics that its workers write."""
        return self.output_topic, self.dead_letter_topic, self.late_topic, self.changelog_topic

    alert_headers = ""

    @property
    def _output_prefix(self) -> str:
        return self.name


# The topics that workers of any topology have written, among those that there are.

_OF_EACH = "-statistics", "-dead-letters", "-late"
_OF_STORED = "-synopses", "-repartition", "-rankings"
_CHANGELOG = re.compile(r"slidestat-(.+)-state-changelog")


def written_by_workers(matched: Iterable[str], topics: Collection[str]) -> dict[str, str]:
    """Return how the name ends of each of the `matched` topics that workers write, by their names:
    two more such topics of the same output are there. Moved records, synopses and rankings may have
    other names than the output: it is enough that there is a changelog of that group or name.
    """
    stored = [found[1] for topic in topics if (found := _CHANGELOG.fullmatch(topic))]
    written = {}
    for topic in matched:
        for suffix in (*_OF_EACH, "-alerts", *_OF_STORED):
            stem = topic.removesuffix(suffix)
            if stem in ("", topic):
                continue
            beside = sum(stem + other in topics for other in _OF_EACH if other != suffix)
            is_stored = suffix in _OF_STORED and any(
                it.startswith(f"{stem}-") or it.endswith(f"-{stem}") for it in stored
            )
            if beside > 1 or is_stored:
                written[topic] = suffix
    return written


# The texts of an alert for people and for an Alertmanager: labels, annotations and a runbook.

OWN_LABELS = ("alertname", "topology", "key", "certainty", "severity")
"""The labels that an Alertmanager gets of each alert anyway."""
OWN_ANNOTATIONS = ("figures", "window_end", "change", "provisional", "runbook_url")
"""The annotations that it gets anyway; a `summary` may be declared in place of the usual one."""

_LABEL_NAME = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]{0,99}")
_ADDRESS = re.compile(r"https?://[^\s/?#@\\]+(?:[/?#]\S*)?", re.IGNORECASE)
_MOST, _LONGEST = 30, 1_000
_TEMPLATE = re.compile(r"\{\{|\$(?:labels|value)\b")


def check_texts(labels: object, annotations: object, runbook: object) -> None:
    """Raise SlidestatError, naming the field, for texts that an Alertmanager would not take, or
    would not show as they are meant.
    """
    _check("labels", labels, OWN_LABELS, lines=False)
    _check("annotations", annotations, OWN_ANNOTATIONS, lines=True)
    if (
        not isinstance(runbook, str)
        or (runbook and not _ADDRESS.fullmatch(runbook))
        or len(runbook) > _LONGEST
        or not runbook.isprintable()
    ):
        raise SlidestatError(
            f"runbook is {redacted(repr(runbook))}, which is no address.",
            'Write one without a user in it: "https://wiki.example.com/slow".',
        )


def _check(field: str, given: object, own: Collection[str], *, lines: bool) -> None:
    if not isinstance(given, Mapping):
        raise SlidestatError(
            f"{field} is {given!r}, which is no table of texts.", 'Write it as { team = "shop" }.'
        )
    if len(given) > _MOST:
        raise SlidestatError(f"{field} has {len(given)} names.", f"Give at most {_MOST}.")
    for name, text in given.items():
        if not isinstance(name, str) or not _LABEL_NAME.fullmatch(name):
            raise SlidestatError(
                f"{field} has the name {name!r}, which Alertmanager does not take.",
                "Use 1 to 100 letters, digits and '_', the first no digit, and not '__' in front.",
            )
        if name in own:
            raise SlidestatError(
                f"{field} has {name!r}, which each alert has by itself.",
                "Give `severity` and `runbook` as fields of the alert, and others another name.",
            )
        plain = text.replace("\n", "") if isinstance(text, str) and lines else text
        if not isinstance(plain, str) or not plain.strip() or not plain.isprintable():
            raise SlidestatError(
                f"{field} has {name} = {text!r}, which is empty or no plain text.",
                'Write a text, in quotes also where it is a number: "2".',
            )
        if len(text) > _LONGEST:
            raise SlidestatError(
                f"{field} has a {name} of {len(text):,} characters.",
                f"Give at most {_LONGEST:,}: each record of the alert has them.",
            )
        if _TEMPLATE.search(text):
            raise SlidestatError(
                f"{field} has {name} = {text!r}, and texts of alerts are no templates.",
                "Leave it out: the key is a label, and the figures are an annotation, already."
                " Templates of an Alertmanager's notifications have both.",
            )
