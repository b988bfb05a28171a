"""The pictures of the theory are of what the synopses do now."""

import json

import msgspec

from benchmarks.documents import pictures


def test_pictures_are_of_this_code() -> None:
    """The figures that were drawn come again, and each answer in them keeps its promise."""
    times = pictures.departures()
    data = {"buckets": pictures.buckets(times), "wave": pictures.wave(times)}
    assert json.loads(msgspec.json.encode(data)) == json.loads(pictures.DATA.read_text("utf-8"))
    for row in data["buckets"]:
        assert abs(row["estimate"] - row["exact"]) <= row["exact"] / 4
    wave = data["wave"]
    assert wave["lower"] <= wave["exact"] <= wave["upper"]
    assert abs(wave["estimate"] - wave["exact"]) <= wave["exact"] / 5
