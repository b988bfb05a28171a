"""The topics that jobs read: how Spark connects to them, what they have, values in Avro."""
