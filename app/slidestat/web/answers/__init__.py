"""Answer the questions about topologies and their keys, from here and from the other workers."""
