"""The web side of a worker: questions over HTTP to the live state, nothing that writes."""
