"""Plans: sweep files, configs, cells, order, what is left. Pure: no I/O, no clock, no chance."""
