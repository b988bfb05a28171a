"""The parts that all synopses share: bytes, batches, parameters."""
