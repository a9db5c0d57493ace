"""Measurement: readings become rates and acceptance. Pure: no I/O, no clock, no chance.

`values` is what the probe hands over and what is made of it; `rates` holds the counter formulas, `occupancy` how
full the
window was, `client_times` what the client saw, `flags` what makes a window unfit for a mean; `derive` puts them
together.
"""
