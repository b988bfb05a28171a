"""How this process proves itself to the brokers: one set of variables for every client."""
