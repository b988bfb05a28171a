"""Machine code of kernels: compiled ahead, as units, and tried by golden vectors."""
