"""Waves of Gibbons and Tirthapura: O(1) in the worst case; and StreamInsight's count."""

from app.synopses.waves.approximate_count import ApproximateCount, ApproximateCountParameters
from app.synopses.waves.average_wave import AverageWave
from app.synopses.waves.count_wave import CountWave
from app.synopses.waves.position_wave import PositionWave
from app.synopses.waves.sum_wave import SumWave
from app.synopses.waves.wave_batch import run_wave_batch
from app.synopses.waves.wave_parameters import AverageParameters, WaveParameters

__all__ = [
    "ApproximateCount",
    "ApproximateCountParameters",
    "AverageParameters",
    "AverageWave",
    "CountWave",
    "PositionWave",
    "SumWave",
    "WaveParameters",
    "run_wave_batch",
]
