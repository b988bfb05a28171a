"""What all benchmarks share: workloads, systems, how they are run, timed and checked."""
