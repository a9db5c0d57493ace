"""Stand-ins that are held to the real thing by the contract suites."""
