"""What all synopses share: bytes, batches, parameters, compilation."""
