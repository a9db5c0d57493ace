"""Kernels that an engine compiles while it serves: what a log line says of it."""

from __future__ import annotations

COMPILES = "JIT compilation during inference"


def compiles_for_a_request(text: str) -> bool:
    """Return whether a log line tells of a kernel that is compiled while a request waits for it.

    Source:
        vLLM `utils/jit_monitor.py`, since 0.21: "Triton kernel JIT compilation during inference: ..." as a WARNING, once per
        kernel. SGLang says nothing of the kind.
    """
    return COMPILES in text
