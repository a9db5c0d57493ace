"""Measurement: readings become rates and acceptance. Pure: no I/O, no clock, no chance."""
