"""Analysis: cells compared and summed up, reports written. Pure: no I/O, no clock, no chance."""
