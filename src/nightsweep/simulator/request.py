"""A request inside the engine, and where its tokens go."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from nightsweep.simulator.acceptance import Chain


class Outlet(Protocol):
    """Where a request's tokens go."""

    def tokens(self, start: int, count: int, finish_reason: str | None) -> bool:
        """Take tokens start..start+count of the answer; True asks to end the request here (a stop string was found)."""


@dataclass(slots=True, eq=False)
class Request:
    """One request in the engine.

    Attributes:
        limit: Tokens after which it ends; `natural` says that this is its own end and not the caller's cut.
        hashes: Of the prompt's whole blocks.
        difficulty: Standard deviations by which its content is easier to draft for.
    """

    prompt_tokens: int
    hashes: tuple[int, ...]
    limit: int
    natural: bool
    max_tokens: int
    temperature: float
    difficulty: float
    outlet: Outlet
    arrived: float = 0.0
    scheduled: float | None = None
    first_token: float = 0.0
    last_token: float = 0.0
    generated: int = 0
    computed: int = 0
    target: int = (
        0  # tokens to compute before the next one is sampled: the prompt, and after a preemption the answer so far
    )
    cached: int = 0
    held: list[int] = field(default_factory=list)
    private: int = 0
    preempted: int = 0
    steps: int = 0
    drift: float = 0.0
    chain: Chain | None = None
    table: tuple[float, ...] = ()
    state: str = "new"  # new | waiting | prefill | decode | done
