"""DDSketch's own Python package on a file of doubles.

    python -m benchmarks.peers.ddsketch_quantiles FILE.npy p...

Runs in an environment of its own; prints JSON: bytes as serialized, CPU ns an event, quantiles.
"""

import json
import time

import numpy as np
from ddsketch import DDSketch
from ddsketch.pb.proto import DDSketchProto

from benchmarks.harness.command import typed

ERROR = 0.01


def main(file: str, shares: list[str]) -> None:
    values = np.load(file).tolist()
    sketch = DDSketch(ERROR)
    start = time.process_time()
    for value in values:
        sketch.add(value)
    seconds = time.process_time() - start
    told = {
        "bytes": len(DDSketchProto.to_proto(sketch).SerializeToString()),
        "ns": seconds / len(values) * 1e9,
        "quantiles": [sketch.get_quantile_value(float(share)) for share in shares],
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(*typed(__doc__, "file", "shares..."))
