"""Engines: flags, counters, boot-log lines of vLLM and SGLang, by version. Pure: no I/O, no clock, no chance."""
