"""Format what `slidestat init` found in the topic."""

from collections.abc import Iterator

from slidestat.infer.proposal import Proposal
from slidestat.infer.proposed_fields import Guess
from slidestat.infer.sampling import Sample


def sample_lines(sample: Sample, proposal: Proposal) -> Iterator[str]:
    """Yield lines about the topic, the guesses and their reasons, and the warnings."""
    rate = sample.records_per_second
    pace = f", which came at about {rate:,.0f} a second" if rate is not None else ""
    yield (
        f"topic       {sample.topic}: {sample.topic_records:,} records in {sample.partitions}"
        f" partitions{pace}"
    )
    yield f"looked at   {len(sample.records):,}, from the first to the newest"
    for what, guess in (
        ("key", proposal.key),
        ("time", proposal.time),
        ("value", proposal.value),
        ("distinct", proposal.distinct),
        ("top", proposal.top),
        ("lateness", proposal.lateness),
    ):
        if guess is not None:
            yield f"{what:<11} {_shown(guess)}: {guess.reason}"
    yield f"windows     {', '.join(proposal.windows.lengths)}: {proposal.windows.reason}"
    several = proposal.keys_seen > proposal.sampled / 4
    yield f"keys        {'more than ' if several else ''}{proposal.keys_seen:,} in the sample"
    for warning in proposal.warnings:
        yield f"beware      {warning}"


def _shown(guess: Guess) -> str:
    return guess.value if isinstance(guess.value, str) else ".".join(guess.value)
