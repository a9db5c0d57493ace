"""Prefect as the dispatcher sees it, in memory: a key makes one run, and what it says of a run may be wrong or lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from nightsweep.service.prefect_api import FlowRun
from nightsweep.service.prefect_server import PrefectUnavailable
from tests.fakes.clock import FakeClock


@dataclass
class FakeRuns:
    """Implements `service.dispatch.Runs`."""

    clock: FakeClock
    away: bool = False
    stopped: bool = False
    runs: dict[str, FlowRun] = field(default_factory=dict)
    asked: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    laid: list[str] = field(default_factory=list)

    def paused(self) -> bool:
        self._there()
        return self.stopped

    def ask(self, parameters: Mapping[str, Any], *, key: str) -> FlowRun:
        self._there()
        if key not in self.keys:
            run = FlowRun(
                f"run-{len(self.asked) + 1}", parameters["name"], "SCHEDULED", "Scheduled", None, self.clock.now()
            )
            self.keys[key], self.runs[run.id], self.asked[run.id] = run.id, run, parameters
        return self.runs[self.keys[key]]

    def find(self, run_id: str) -> FlowRun | None:
        self._there()
        return self.runs.get(run_id)

    def of_key(self, key: str) -> FlowRun | None:
        self._there()
        return self.runs.get(self.keys.get(key, ""))

    def lay(self, run_id: str, *, message: str) -> None:
        self._there()
        self.laid.append(run_id)
        self.becomes(run_id, "CRASHED", message=message)

    # --- what happens there

    def becomes(self, run_id: str, state: str, *, name: str | None = None, message: str | None = None) -> None:
        """Put a run into a state, now."""
        now: datetime = self.clock.now()
        changed = {"state_type": state, "state_name": name or state.capitalize(), "message": message, "since": now}
        self.runs[run_id] = replace(self.runs[run_id], **changed)  # type: ignore[arg-type]

    def forget(self) -> None:
        """Lose every record."""
        self.runs, self.keys = {}, {}

    def _there(self) -> None:
        if self.away:
            raise PrefectUnavailable(url="http://127.0.0.1:1/api", reason="connection refused")
