"""`python -m warmstart`."""

from warmstart.cli import main

main()
