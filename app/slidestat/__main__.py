"""`python -m slidestat` is the command `slidestat`."""

from slidestat.cli.main import main

main()
