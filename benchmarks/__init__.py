"""Benchmarks: what the product costs besides the engine. Each figure is measured beside what it is compared with, in one run.

`make bench` runs all of them and writes bench-results/*.json and bench-results/bench.md.
One alone: `python -m benchmarks.startup`.
"""
