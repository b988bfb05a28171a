"""A proposed topology as a TOML file, with the reasons as comments, and with what more could be
asked for as comments that become declarations without their mark.
"""

from collections.abc import Iterator

import msgspec

from slidestat.declare.expressions.nodes import FieldValue, text_of
from slidestat.declare.lengths import duration_ms
from slidestat.declare.slos import Slo
from slidestat.infer.proposal import Proposal
from slidestat.infer.proposed_fields import Guess, path_of
from slidestat.options import QUANTILES


def toml_text(proposal: Proposal) -> str:
    """Return the text of the file."""
    return "".join(f"{line}\n" for line in _lines(proposal))


def _lines(proposal: Proposal) -> Iterator[str]:
    yield f"# Proposed from {proposal.sampled:,} records of {proposal.source}: read and change it."
    yield f"name = {_text(proposal.name)}"
    yield f"source = {_text(proposal.source)}"
    if proposal.source_format != "json":
        yield f"source_format = {_text(proposal.source_format)}"
    if proposal.envelope:
        yield f"envelope = {_text(proposal.envelope)}  # events have the fields of the row"
    if proposal.computed:
        yield f"computed = [{', '.join(map(_text, proposal.computed))}]"
    yield _field("key_field", proposal.key)
    yield _field("time_field", proposal.time)
    if proposal.time_format != "ms":
        yield f"time_format = {_text(proposal.time_format)}"
    if proposal.value is not None:
        yield _field("value_field", proposal.value)
    shortest, *_, span = proposal.windows.lengths
    yield f"# {proposal.windows.reason[0].upper()}{proposal.windows.reason[1:]}."
    yield f"span = {_text(span)}  # the longest window that can be asked for"
    windows = ", ".join(map(_text, proposal.windows.lengths))
    yield f"windows = [{windows}]  # those that are written out"
    yield f"every = {_text(shortest)}"
    yield _field("lateness", proposal.lateness)
    if proposal.repartition:
        yield "repartition = true  # the records are not partitioned by the key"
    yield ""
    yield '# More, without the "# " before it: docs/declare-a-topology.md, rows.md and alerts.md.'
    if proposal.envelope:
        yield "# where = \"op in ('c', 'r')\"  # new rows; else each change counts, deletions too"
    elif condition := _condition(proposal):
        yield f"# where = {_text(condition)}  # such events are counted, and no others"
    takes_no_top = " (without top)" if proposal.top is not None else ""
    yield f'# output_shape = "rows"  # plain columns, as sinks and SQL take them{takes_no_top}'
    yield "# exactly_once = true  # each record once, for readers of what is committed"
    yield '# emit = "always"  # at every tick; "change": where the newest record is no longer true'
    yield f"# having = {_text(f'count_{shortest} >= 100')}  # only where this holds, and once after"
    yield '# expected = ["..."]  # keys that the alert below is also for if they never came'
    derived = f"count_{shortest} / count_{span} as recent"
    if proposal.value is not None:
        derived = f"p99_{shortest} / p50_{shortest} as tail"
    yield f"# derived = [{_text(derived)}]  # figures computed from others, with bounds"
    yield from _statistic("count")
    if proposal.value is not None:
        if proposal.value_decimals is not None:
            kind = "mean" if proposal.value_is_signed else "sum"
            yield from _statistic(kind, f"decimals = {proposal.value_decimals}")
        yield from _statistic("quantile", f"quantiles = {list(QUANTILES)}")
        yield from _statistic("maximum")
    if proposal.distinct is not None:
        yield from _statistic("distinct", _field("field", proposal.distinct))
    if proposal.top is not None:
        yield from _statistic("top", _field("field", proposal.top), "limit = 5")
    if condition := _condition(proposal):
        some = _statistic("count", 'name = "some"', f"where = {_text(condition)}")
        yield from _left_to_choose(some)
    yield from _alerts(proposal, shortest, span)


def _alerts(proposal: Proposal, shortest: str, span: str) -> Iterator[str]:
    """Yield the lines of alerts, as comments."""
    when = "count >= 100" if proposal.value is None else "p99 > 100 and count >= 100"
    yield ""
    yield "# [[alerts]]  # a record when it begins to hold, and when it no longer does"
    yield '# name = "much"'
    yield f"# when = {_text(when)}"
    yield f"# window = {_text(shortest)}"
    yield ""
    yield "# [[alerts]]  # a key without events; with idle also where nobody else sends"
    yield '# name = "silent"'
    yield '# when = "count = 0"'
    yield f"# window = {_text(shortest)}"
    if _condition(proposal):
        yield ""
        yield "# [[alerts]]  # what came last differs by more than chance makes it"
        yield '# name = "changed"'
        yield '# change = "some / count"'
        yield f"# window = {_text(span)}"
    yield from _objectives(proposal, span)


def _objectives(proposal: Proposal, span: str) -> Iterator[str]:
    usual = Slo(name="usual", good="good", objective=0.999).burn_alerts
    most = duration_ms(span, "span")
    fits = [alert.text for alert in usual if duration_ms(alert.long, "alerts") <= most]
    for name, good, share in proposal.objectives:
        yield ""
        yield "# [[slos]]  # burn rates, what is left of the budget, and alerts: docs/slos.md"
        yield f"# name = {_text(name)}"
        yield f"# good = {_text(good)}"
        yield f"# objective = {share}"
        if len(fits) < len(usual):
            yield f"# alerts = [{', '.join(map(_text, fits))}]  # those that fit the span"


def _left_to_choose(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield f"# {line}" if line else line


def _condition(proposal: Proposal) -> str:
    """Return an example of a condition on fields that events have; "" where no field is known."""
    if proposal.value is not None:
        for text in proposal.computed:  # A condition reads what the events have.
            return f"{text.rpartition(' as ')[0]} > 100"
        return f"{_sql(proposal.value)} > 100"
    return "" if proposal.top is None else f"{_sql(proposal.top)} is not null"


def _sql(guess: Guess) -> str:
    return text_of(FieldValue(path_of(guess.value)))


def _statistic(kind: str, *parameters: str) -> Iterator[str]:
    yield ""
    yield "[[statistics]]"
    yield f"kind = {_text(kind)}"
    yield from parameters


def _field(name: str, guess: Guess) -> str:
    if isinstance(guess.value, str):
        return f"{name} = {_text(guess.value)}  # {guess.reason}"
    return f"{name} = [{', '.join(map(_text, guess.value))}]  # {guess.reason}"


def _text(value: str) -> str:
    """Return a TOML string: JSON's escapes are valid in TOML, which needs one more."""
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
