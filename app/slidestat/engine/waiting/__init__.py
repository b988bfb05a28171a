"""Records in: which of them count, which are late or refused."""
