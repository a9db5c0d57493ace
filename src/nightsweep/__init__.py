"""Nightsweep: overnight sweeps of engine configs for people who self-host LLM inference."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nightsweep.notebook import open as open

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import what notebooks use when they use it: `import nightsweep` alone costs nothing."""
    if name == "open":
        from nightsweep.notebook import open as opened

        return opened
    raise AttributeError(f"module 'nightsweep' has no attribute {name!r}")
