"""A worker that notes its batches: `noted_worker.py FILE ARGUMENTS...`, those of `slidestat`.

In FILE it writes, for each batch, a JSON line: how many records, and how many bytes of values.
"""

import json
import sys
from collections.abc import Awaitable
from pathlib import Path

from slidestat.cli.main import main
from slidestat.engine.records import RecordBatch
from slidestat.faust.partitions.batch_steps import BatchSteps
from slidestat.live.batch_traces import BatchTrace

if __name__ == "__main__":
    _notes = Path(sys.argv.pop(1)).open("a")  # noqa: SIM115 - as long as the process
    _process = BatchSteps.process

    def process_and_note(
        steps: BatchSteps, batch: RecordBatch, trace: BatchTrace | None = None
    ) -> Awaitable[bool]:
        size = sum(len(value or b"") for value in batch.values)
        print(json.dumps([len(batch), size]), file=_notes, flush=True)
        return _process(steps, batch, trace)

    BatchSteps.process = process_and_note  # type: ignore[assignment, method-assign]
    main()
