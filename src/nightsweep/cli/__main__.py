"""`python -m nightsweep.cli`."""

from nightsweep.cli import main

main()
