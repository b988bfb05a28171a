"""Named items."""

from functools import partial

from slidestat.synopses import FrequentParameters, NamedItems, PairedParameters
from tests.golden.golden import HOUR, NOON, of_synopses, steps

# In blocks, as topologies had them before 0.1.0, and in pairs.
KINDS: dict[str, type[FrequentParameters | PairedParameters]] = {
    "named-items-1": FrequentParameters,
    "named-paired-items-1": PairedParameters,
}
STEPS, TIMES = steps(6_000)
NAMES = ["", "/", "/about", "Zürich", "東京", "\N{CAT FACE}", "\ud800", "long " * 60]
PATHS = [
    NAMES[page] if page < len(NAMES) else f"/page/{page}"
    for page in (STEPS * STEPS % 1_009 % 17).tolist()
]

# epsilon, span, how many events, moved on to.
STATES: dict[str, tuple[float, int, int, int | None]] = {
    "empty": (0.01, HOUR, 0, None),
    "five": (0.01, HOUR, 5, None),
    "many": (0.1, HOUR, 6_000, None),
    "coarse": (0.5, HOUR, 6_000, None),
    "partly-expired": (0.5, HOUR, 6_000, int(TIMES[-1]) + HOUR // 2),
    "expired": (0.5, HOUR, 6_000, NOON + 99 * HOUR),
}


def state(
    kind: type[FrequentParameters | PairedParameters],
    epsilon: float,
    span: int,
    events: int,
    to: int | None,
) -> NamedItems:
    """A summary of some events, moved on to a time."""
    summary = NamedItems.create(kind(epsilon, span))
    summary.insert(TIMES[:events], PATHS[:events])
    if to is not None:
        summary.advance(to)
    return summary


def facts(summary: NamedItems) -> dict[str, object]:
    """What a state says of itself."""
    parameters = summary.parameters
    share = max(0.05, parameters.epsilon)
    return {
        "now": summary.now,
        "epsilon": parameters.epsilon,
        "span": parameters.span,
        "texts": summary.stored_texts(),
        "answers": {
            str(n): [list(item) for item in summary.query(n, share)]
            for n in (parameters.span // 10, parameters.span)
        },
    }


GOLDEN = [
    golden
    for folder, kind in KINDS.items()
    for golden in of_synopses(
        {name: partial(state, kind, *made) for name, made in STATES.items()}, facts, folder
    )
]
