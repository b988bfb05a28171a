"""SQL scalar expressions over the fields of an event: read, checked and written, not computed."""
