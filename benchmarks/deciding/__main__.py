"""The comparison as a command of its folder: `python -m benchmarks.deciding`."""

from benchmarks.deciding.comparison import deciding
from benchmarks.speed.throughput import run_command

if __name__ == "__main__":
    run_command(deciding)
