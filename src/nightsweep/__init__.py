"""Nightsweep: overnight sweeps of engine configs for people who self-host LLM inference."""

__version__ = "0.1.0"
