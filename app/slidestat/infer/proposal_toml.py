"""A proposed topology as a TOML file, with the reasons as comments."""

from collections.abc import Iterator

import msgspec

from slidestat.infer.guesses import Guess
from slidestat.infer.proposal import Proposal


def toml_text(proposal: Proposal) -> str:
    """The file."""
    return "".join(f"{line}\n" for line in _lines(proposal))


def _lines(proposal: Proposal) -> Iterator[str]:
    yield f"# Proposed from {proposal.sampled:,} records of {proposal.source}: read and change it."
    yield f"name = {_text(proposal.name)}"
    yield f"source = {_text(proposal.source)}"
    if proposal.source_format != "json":
        yield f"source_format = {_text(proposal.source_format)}"
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
    yield from _statistic("count")
    if proposal.value is not None:
        if proposal.value_is_signed:
            yield from _statistic("mean")
        else:
            yield from _statistic("sum", f"decimals = {proposal.value_decimals}")
        yield from _statistic("quantile", "quantiles = [0.5, 0.9, 0.99]")
        yield from _statistic("maximum")
    if proposal.distinct is not None:
        yield from _statistic("distinct", _field("field", proposal.distinct))
    if proposal.top is not None:
        yield from _statistic("top", _field("field", proposal.top), "limit = 5")


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
    """A TOML string: JSON's escapes are among TOML's, which wants one more."""
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
