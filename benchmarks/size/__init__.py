"""How many bytes a key, a state and a worker take."""
