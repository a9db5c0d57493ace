"""Production, for all who touch it: recorded before it is stopped, asked whether it is idle, brought back and proven."""
