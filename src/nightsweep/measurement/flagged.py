"""The validity flags, apart from the values that carry them: lists name flags, and need no raw readings."""

from __future__ import annotations

FLAGS = (
    "underfilled",
    "foreign_load",
    "counter_reset",
    "engine_exited",
    "identity_lost",
    "preempted",
    "cache_hit",
    "miss_unproven",
    "request_failed",
    "aborted",
    "throttled",
    "disturbed",
    "jit_compilation",
    "blurred",
    "buffered",
)
"""Validity flags of a window, in the order that they are told in. Only a window without any enters a mean."""
