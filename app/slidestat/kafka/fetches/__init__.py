"""Read what a fetch brings of batch topics as columns: no Python object a record."""
