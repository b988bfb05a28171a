"""Topologies declared without Python: in a TOML file, or with the flags of the command line."""
