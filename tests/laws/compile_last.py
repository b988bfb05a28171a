"""Compile the kernels of all synopses from the last on: `python -m tests.laws.compile_last`.

Beside a process that collects the tests, which compiles them from the first on: both meet half-way,
as each loads what the other has compiled.
"""

import numpy as np

from tests.laws.every import EVERY

for entry in reversed(EVERY.values()):
    synopsis = entry.create(200)
    entry.insert(synopsis, np.arange(700), np.arange(-350, 350))
    type(synopsis).from_bytes(synopsis.to_bytes()).check()
    entry.answers(synopsis, 1, synopsis.now)
