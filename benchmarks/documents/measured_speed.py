"""What results/latest.json says of speed, latency and costs, as text for documents."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import RESULTS_FOLDER
from benchmarks.documents.markdown import table
from benchmarks.harness import results
from benchmarks.harness.cases import CASES, CaseName
from benchmarks.harness.systems import BARE, OURS, SYSTEMS
from benchmarks.speed.real_rate import WORKLOADS

_NOT_YET = "No figures yet: `make bench` measures them, and `make figures` writes them here."
_NOT_DECIDED = "No figures yet: `python -m benchmarks.deciding --keys 100000` measures them."
_DIGITS = ".3g"
SCALING = RESULTS_FOLDER / "scaling.json"
DECIDING = RESULTS_FOLDER / "deciding.json"
DECIDING_KEYS = RESULTS_FOLDER / "deciding_keys.json"
QUESTIONS = RESULTS_FOLDER / "questions.json"
STREAMING = RESULTS_FOLDER / "streaming.json"

Results = Mapping[str, Any]


def deciding() -> str:
    """What slidestat and what is taken in its place do with the question that decides."""
    return _decided(DECIDING)


def deciding_keys() -> str:
    """The same, with a hundred times the keys."""
    return _decided(DECIDING_KEYS)


def streaming() -> str:
    """How a topology on Structured Streaming does beside a worker and Spark's own aggregates."""
    found: Results = json.loads(STREAMING.read_text())
    parts = []
    for topic in found["topics"]:
        rows = [
            (it["name"], it["by_cpu"], it["by_clock"], f"{it['peak_mib']:,.0f} MiB")
            for it in topic["subjects"]
        ]
        heads = ("", "times a worker, a CPU second", "by the clock", "at most")
        parts.append(
            f"{topic['events']:,} events of {topic['keys']:,} keys, `{topic['workload']}`, rounds:"
            f" {topic['rounds']}. The worker had at most {topic['worker_peak_mib']:,.0f} MiB.\n"
            f"By the clock the stream has {topic['of_own']} of the speed of Spark's own"
            f" aggregates.\n\n{table(heads, rows)}"
        )
    return "\n\n".join([f"On {found['machine']}:", *parts])


def _decided(path: Path) -> str:
    if not path.is_file():
        return _NOT_DECIDED
    found: Results = json.loads(path.read_text())
    speed, live = found["speed"], found.get("live")
    topic = f"{speed['events']:,} requests of {speed['keys']:,} keys in {speed['hours']:g} hours"
    taken = f"medians (least - most) of {speed['runs']} runs" if speed["runs"] > 1 else "one run"
    text = f"""\
What `python -m benchmarks.deciding` measured on {speed["machine"]}, the broker on it
too: {topic} of event time, or the part of them that another
system took in {60 * speed["minutes"]:g} seconds; {taken}, and the worst errors of all."""
    parts = [speed]
    if live is not None:
        parts.append(live)
        pace = f"{live['pace']:,} events a second"
        text += f"""
What comes after a tick, a stop and a kill is of one run, at {pace} after an hour of history."""
    cells: dict[str, dict[str, str]] = {}
    for part in parts:
        for name, rows in part["systems"].items():
            cells.setdefault(name, {}).update(rows)
    titles = dict.fromkeys(title for rows in cells.values() for title in rows)
    rows = [(title, *(each.get(title, "-") for each in cells.values())) for title in titles]
    cannot = {name: why for part in parts for name, why in part["cannot"].items()}
    lines = "".join(f"\n- without {name}: {why}" for name, why in cannot.items())
    return f"{text}\n\n{table(('', *cells), rows)}\n{lines}".rstrip()


def scaling() -> str:
    """What two workers of one machine read, three, ... beside one."""
    found: Results = json.loads(SCALING.read_text())
    heads = ("workers", "events a second", "times one (least - most)")
    rows = [
        (
            str(row["workers"]),
            f"{row['events_per_s']:,}",
            f"{row['ratio']:.2f} ({row['least_ratio']:.2f} - {row['largest_ratio']:.2f})",
        )
        for row in found["rows"]
    ]
    return f"""\
What `python -m benchmarks.speed.scaling` measured on {found["machine"]},
with the broker on the same cores; medians of {found["runs"]} runs:

{table(heads, rows)}"""


def questions() -> str:
    """What questions cost the work, and the work the questions."""
    found: Results = json.loads(QUESTIONS.read_text())
    heads = (
        "clients",
        "each asks for",
        "answers a second",
        "ms: p50, p99",
        "refused a second",
        "ms to a tick's last emission: median, most",
    )
    rows = [
        (
            str(row["clients"]),
            row["asked"] if row["clients"] else "-",
            f"{row['answers_per_s']:,.0f}",
            f"{row['p50_ms']:,.0f}, {row['p99_ms']:,.0f}",
            f"{row['refusals_per_s']:,.0f}",
            f"{row['work_p50_ms']:,.0f}, {row['work_max_ms']:,.0f}",
        )
        for row in found["rows"]
    ]
    return f"""\
What `python -m benchmarks.speed.questions` measured on {found["machine"]}: clients that
ask without pause, beside {found["events_per_s"]:,} events a second of 1,000 keys, for {
        found["seconds"]
    } s each,
with the clients and the broker on the same cores:

{table(heads, rows)}"""


def workloads() -> str:
    """What a worker does on each workload, and in the demonstration of the article of 2013."""
    found = _latest()
    if found is None:
        return _NOT_YET
    heads = ("workload", "keys", "events a second", "wanted", "of a bare loop", "peak MiB", "runs")
    rows = []
    for name, workload in found["workloads"].items():
        if name in WORKLOADS:
            continue
        settings, ours = workload["settings"], workload["systems"][OURS]
        wanted = CASES[CaseName(name)].wanted
        is_reached = wanted is not None and ours["events_per_s"]["median"] >= wanted
        goal = "-" if wanted is None else f"{wanted:,}" + ("" if is_reached else ", NOT reached")
        peak = f"{ours['peak_memory_mib']['median']:,.0f}"
        bare = workload["ratio_spreads"].get(BARE)
        rows.append(
            (
                name,
                f"{settings['keys']:,}",
                _spread(ours["events_per_s"]),
                goal,
                "-" if bare is None else _spread(bare),
                peak,
                str(settings["runs"]),
            )
        )
    demonstration = found["demonstration"]
    return f"""\
{table(heads, rows)}
{_held(found)}
StreamInsight's demonstration, ones among the last {demonstration["window"]:,} of
{demonstration["events"]:,} events to {demonstration["epsilon"]:.0%}: {
        _number(demonstration["events_per_cpu_s"])
    } events a CPU second on one
core, in one run. The article of 2013 has "a few hundred thousand events per second"."""


def _held(found: Results) -> str:
    """What a worker takes at the real rates of workloads, if that was measured."""
    rows = []
    for name in WORKLOADS:
        if name not in found["workloads"]:
            continue
        workload = found["workloads"][name]
        settings, ours = workload["settings"], workload["systems"][OURS]
        latency = ours["live_latency_ms"]
        rows.append(
            (
                name,
                f"{settings['keys']:,}",
                f"{settings['live_events_per_s']:,}",
                f"{ours['live_core_percent']:.1f} %",
                f"{ours['live_changelog_bytes_per_event']:,.0f}",
                f"{ours['live_output_bytes_per_event']:,.0f}",
                f"{latency['p50']:,.0f}, {latency['p99']:,.0f}",
                _number(ours["events_per_s"]),
            )
        )
    if not rows:
        return ""
    heads = (
        "held at its real rate",
        "keys",
        "events a second",
        "of a core",
        "changelog bytes an event",
        "output bytes an event",
        "latency, ms",
        "catching up, events a second",
    )
    return f"\n{table(heads, rows)}\n"


def comparison() -> str:
    """Everything that was measured on the workload `sums`, and who could not."""
    found = _latest()
    if found is None:
        return _NOT_YET
    sums, (ours, others) = found["workloads"][CaseName.SUMS], _systems(found)
    settings = sums["settings"]
    heads = (
        "system",
        "which does",
        "events a second",
        "ours by it",
        "by CPU second",
        "peak MiB",
        "changelog bytes an event",
        "latency, ms",
        "since the window's end, ms",
        "restart, s",
    )
    rows = [_row(found, name, figures) for name, figures in {OURS: ours, **others}.items()]
    cannot = "\n".join(
        f"- without {name}: {figures['cannot']}"
        for name, figures in sums["systems"].items()
        if "cannot" in figures
    )
    text = f"""\
{found["machine"]}, the broker on it too; {settings["events"]:,} events
of {settings["bytes_per_event"]} bytes, {settings["keys"]:,} keys; medians (least - most) of
{settings["runs"]} runs. Latency is p50, p99 at {found["latency"]["rate"]:,} records a second,
from the record by which an answer is due by the system's own rule; and from the end of its window,
where there is one answer for each. A restart lasts up to the first event, with the data folder and
with an empty one; both of one run.

{table(heads, rows)}"""
    return f"{text}\n\n{cannot}" if cannot else text


def _row(found: Results, name: str, figures: Results) -> tuple[str, ...]:
    sums, system = found["workloads"][CaseName.SUMS], SYSTEMS[name]
    cpu = sums["ratio_spreads_by_cpu_second"].get(name)
    changelog = figures["changelog_bytes_per_event"]["median"]
    return (
        name,
        system.question,
        _spread(figures["events_per_s"]),
        "-" if name == OURS else _ratio(sums, name),
        "-" if cpu is None else _number(cpu["median"]),
        f"{figures['peak_memory_mib']['median']:,.0f}",
        f"{changelog:,.0f}" if system.has_changelog else "-",
        _latency(found, name, "ms"),
        _latency(found, name, "since_end_ms"),
        _restart(found, name),
    )


def _latest() -> Results | None:
    if not results.LATEST.is_file():
        return None
    found: Results = json.loads(results.LATEST.read_text())
    return found


def _systems(found: Results) -> tuple[Results, Mapping[str, Results]]:
    """Ours, and the others that could, in their order."""
    systems = found["workloads"][CaseName.SUMS]["systems"]
    could = {
        name: systems[name] for name in SYSTEMS if name in systems and "cannot" not in systems[name]
    }
    return could.pop(OURS), could


def _ratio(sums: Results, name: str) -> str:
    return _spread(sums["ratio_spreads"][name])


def _latency(found: Results, name: str, which: str) -> str:
    of = found["latency"]["systems"].get(name, {})
    p50, p99 = of.get(f"p50_{which}"), of.get(f"p99_{which}")
    return "-" if p50 is None else f"{p50:,.0f}, {p99:,.0f}"


def _restart(found: Results, name: str) -> str:
    of = found["restarts"].get(name, {})
    return f"{of['kept_s']:.1f}, {of['emptied_s']:.1f}" if "kept_s" in of else "-"


def _spread(spread: Results) -> str:
    least, most = _number(spread["least"]), _number(spread["most"])
    return f"{_number(spread['median'])} ({least} - {most})"


def _number(figure: float) -> str:
    rounded = float(format(figure, _DIGITS))
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"
