"""Windows that ended before now, as differences of two windows of one state."""
