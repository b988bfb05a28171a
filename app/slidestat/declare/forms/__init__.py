"""The forms in which a declaration is written: Python, TOML, flags."""
