"""`python -m nightsweep`."""

from nightsweep.cli import main

main()
