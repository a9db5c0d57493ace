"""Engines by kind."""

from __future__ import annotations

from nightsweep.engine.bootlog import KINDS
from nightsweep.engine.sglang import SglangEngine
from nightsweep.engine.vllm import VllmEngine
from nightsweep.errors import UnknownEngine


def engine_for(kind: str) -> VllmEngine | SglangEngine:
    """Return what is known of an engine kind.

    Raises:
        UnknownEngine: None that the product knows.
    """
    if kind == "vllm":
        return VllmEngine()
    if kind == "sglang":
        return SglangEngine()
    raise UnknownEngine(kind=kind, known=", ".join(KINDS))
