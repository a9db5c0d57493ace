"""What we ask of Prefect's REST API: our deployment, a run of it, its state. Plain HTTP, so that no command imports Prefect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx

from nightsweep.service.prefect_server import PrefectUnavailable, certificates
from nightsweep.units import Seconds

FLOW_NAME = "sweep"
TERMINAL = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


@dataclass(frozen=True)
class FlowRun:
    """A run as Prefect sees it; our own database decides what is measured."""

    id: str
    name: str
    state_type: str | None
    state_name: str | None
    message: str | None
    since: datetime | None = None  # when it came to this state

    @property
    def ended(self) -> bool:
        """Whether Prefect holds it for ended."""
        return self.state_type in TERMINAL


class PrefectApi:
    """A small client; every call has a timeout, and what fails is PrefectUnavailable."""

    def __init__(self, api_url: str) -> None:
        self.api_url = api_url.rstrip("/")

    def deployment_id(self, name: str) -> str | None:
        """Return the id of our served deployment, or None when nobody serves it (yet)."""
        answer = self._request("GET", f"/deployments/name/{FLOW_NAME}/{name}", missing_is_none=True)
        return None if answer is None else str(answer["id"])

    def paused(self, name: str) -> bool:
        """Return whether somebody paused our deployment; one that is not there is not paused."""
        answer = self._request("GET", f"/deployments/name/{FLOW_NAME}/{name}", missing_is_none=True)
        return answer is not None and bool(answer.get("paused"))

    def start(
        self,
        deployment_id: str,
        parameters: Mapping[str, Any],
        *,
        tags: tuple[str, ...] = (),
        key: str | None = None,
    ) -> FlowRun:
        """Ask for a run of the deployment, now.

        Args:
            key: Asked for again under the same key, the run that was made the first time is returned, whatever its state.
        """
        body: dict[str, Any] = {"parameters": dict(parameters), "tags": list(tags), "state": {"type": "SCHEDULED"}}
        if key is not None:
            body["idempotency_key"] = key
        return _run(self._request("POST", f"/deployments/{deployment_id}/create_flow_run", json=body))

    def flow_run(self, run_id: str) -> FlowRun:
        """Return a run."""
        return _run(self._request("GET", f"/flow_runs/{run_id}"))

    def find_run(self, run_id: str) -> FlowRun | None:
        """Return a run; None when the server knows of none."""
        answer = self._request("GET", f"/flow_runs/{run_id}", missing_is_none=True)
        return None if answer is None else _run(answer)

    def run_of_key(self, key: str) -> FlowRun | None:
        """Return the run that was asked for under a key; None when there is none."""
        body = {"flow_runs": {"idempotency_key": {"any_": [key]}}, "limit": 1}
        found = self._request("POST", "/flow_runs/filter", json=body)
        return _run(found[0]) if found else None

    def open_runs(self, deployment_id: str, states: tuple[str, ...]) -> tuple[FlowRun, ...]:
        """Return the deployment's runs in these types of state ("RUNNING", ...)."""
        body = {
            "flow_runs": {"state": {"type": {"any_": list(states)}}},
            "deployments": {"id": {"any_": [deployment_id]}},
        }
        return tuple(_run(run) for run in self._request("POST", "/flow_runs/filter", json=body))

    def lay(self, run_id: str, *, message: str) -> None:
        """Say of a run whose process is gone that it crashed: nobody else would, and it would be `Running` for ever."""
        state = {"type": "CRASHED", "name": "Crashed", "message": message}
        self._request("POST", f"/flow_runs/{run_id}/set_state", json={"state": state, "force": True})

    def cancel(self, run_id: str) -> None:
        """Ask the runner to end a run; its cleanup still happens."""
        self._request("POST", f"/flow_runs/{run_id}/set_state", json={"state": {"type": "CANCELLING"}, "force": False})

    def show_progress(self, run_id: str, *, share: float, description: str, bar: str | None, timeout: Seconds) -> str:
        """Show how far a run is, as a bar in its page; return the bar's id.

        Args:
            share: Percent.
            bar: Id of the bar that is moved; None makes one.
            timeout: A bar is worth no wait: Prefect's own client would try for a minute.
        """
        if bar is not None:
            self._request("PATCH", f"/artifacts/{bar}", json={"data": share}, timeout=timeout)
            return bar
        body = {"type": "progress", "data": share, "description": description, "flow_run_id": run_id}
        return str(self._request("POST", "/artifacts/", json=body, timeout=timeout)["id"])

    def version(self) -> str:
        """Return the server's version."""
        return str(self._request("GET", "/version"))

    def ui_url(self, run_id: str) -> str:
        """Return where a person sees the run."""
        return f"{self.api_url.removesuffix('/api')}/runs/flow-run/{run_id}"

    def _request(
        self, method: str, path: str, *, json: Any = None, missing_is_none: bool = False, timeout: float = 15.0
    ) -> Any:
        url = self.api_url + path
        try:
            answer = httpx.request(method, url, json=json, timeout=timeout, verify=certificates())
            if missing_is_none and answer.status_code == 404:
                return None
            answer.raise_for_status()
            return answer.json() if answer.content else None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise PrefectUnavailable(url=self.api_url, reason=str(error) or type(error).__name__) from error


def _run(answer: Mapping[str, Any]) -> FlowRun:
    state = answer.get("state") or {}
    return FlowRun(
        id=str(answer["id"]),
        name=str(answer.get("name", "")),
        state_type=state.get("type"),
        state_name=state.get("name"),
        message=state.get("message"),
        since=datetime.fromisoformat(state["timestamp"]) if state.get("timestamp") else None,
    )
