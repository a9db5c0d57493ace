"""Errors: a family says what comes next, a leaf says what happened.

Raise with facts (`EngineExited(exit_code=137, log_tail=tail)`): plain values that survive pickling, never secrets.
"""

from __future__ import annotations

from typing import Any


class SweepError(Exception):
    """Root of all errors of the product.

    A subclass sets `summary`, a format string over its facts; facts that it does not name are appended.
    """

    summary = "the sweep cannot go on"

    def __init__(self, **facts: Any) -> None:
        self.facts = facts
        super().__init__(self._text())

    def _text(self) -> str:
        try:
            return self.summary.format(**self.facts)
        except (KeyError, IndexError, ValueError):
            listed = ", ".join(f"{name}={value!r}" for name, value in self.facts.items())
            return f"{type(self).__name__}: {listed}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.facts))


def _rebuild(leaf: type[SweepError], facts: dict[str, Any]) -> SweepError:
    return leaf(**facts)


# --- PlanError: fix the plan -------------------------------------------------------------------------------------


class PlanError(SweepError):
    """The plan is at fault: nothing was touched; fix the file and call again."""


class InvalidPlan(PlanError):
    """The sweep file is invalid. `problems` is a tuple of readable lines, one per mistake."""

    summary = "the sweep file is invalid:\n{listing}"

    def __init__(self, **facts: Any) -> None:
        facts.setdefault("listing", "\n".join(str(p) for p in facts.get("problems", ())))
        super().__init__(**facts)


class InvalidImport(PlanError):
    """Files of another tool that cannot be taken over. `problems` is a tuple of readable lines; nothing was stored."""

    summary = "nothing was imported:\n{listing}"

    def __init__(self, **facts: Any) -> None:
        facts.setdefault("listing", "\n".join(str(p) for p in facts.get("problems", ())))
        super().__init__(**facts)


class StillNeeded(PlanError):
    """Something cannot be removed, for something else rests on it."""

    summary = "{what} stays: {reason}"


class UnknownEngine(PlanError):
    """The plan names an engine kind that the product does not know."""

    summary = "unknown engine kind {kind!r}: use one of {known}"


class NotAnEngine(PlanError):
    """A container does not run an engine whose command can be read."""

    summary = "container {name} runs no engine that a sweep file could be made of: {reason}"


class BadFilter(PlanError):
    """A filter that cannot be meant."""

    summary = "{what}: {reason}"


class ExtraMissing(PlanError):
    """What was asked for needs a package that comes with an extra."""

    summary = "{what} needs {package}: pip install 'nightsweep[{extra}]'"


class Unwritable(PlanError):
    """A file that was asked for cannot be written."""

    summary = "{path} cannot be written: {reason}"


class SecretMissing(PlanError):
    """The plan takes a secret from an environment variable that is not set."""

    summary = "environment variable {variable} is not set, but the sweep file takes {key} from it"


class SeveralConfigs(PlanError):
    """A name that must stand for one config fits several."""

    summary = "{wanted!r} fits {count} configs; name one, its fingerprint or sweep:NAME/CONFIG will do:\n{listing}"


class NotComparable(PlanError):
    """Two sides answer different questions."""

    summary = "A and B are not of the same question: {reason}. {remedy}"


class TooManyCells(PlanError):
    """A question is over more cells than are answered at once."""

    summary = "{reason}: narrow it with --at, --config or --where"


class NothingToDecide(PlanError):
    """A decision was asked for that no windows stand behind."""

    summary = (
        "nothing can be decided in sweep {sweep}: {reason}. `nightsweep cells --sweep {sweep}` lists what was measured"
    )


class CannotAskAgain(PlanError):
    """No sweep file can be written that asks a decision again."""

    summary = "no sweep file was written that asks decision {decision} (of sweep {sweep}) again: {reason}"


# --- HostError: stop the sweep -----------------------------------------------------------------------------------


class HostError(SweepError):
    """The machine is at fault: no config can be measured until it is mended."""


class DockerUnavailable(HostError):
    """The Docker Engine does not answer."""

    summary = "the Docker Engine does not answer ({reason}): start it, or point DOCKER_HOST at it"


class GpuRuntimeMissing(HostError):
    """GPUs were asked for, and Docker has no runtime that could pass them on."""

    summary = "Docker cannot pass a GPU to a container ({reason}): install the NVIDIA Container Toolkit, or drop `gpus`"


class GpuBusy(HostError):
    """The accelerator's memory did not become free in time."""

    summary = "accelerator memory is still in use after {waited:.0f} s: {holders}"


class PortBusy(HostError):
    """Something that is not ours listens on the engine's port."""

    summary = "port {port} is in use by {holder}: stop it, or set engine.port to another one"


class ContainerMissing(HostError):
    """A container that the plan names does not exist."""

    summary = "no container named {name!r}: `docker ps -a` lists the ones there are"


class NotForeign(HostError):
    """A container named as production is one that nightsweep started itself."""

    summary = "container {name!r} was started by nightsweep itself: name the container that serves by day"


class NotOurs(HostError):
    """A container without our label was about to be stopped or removed as if it were ours."""

    summary = "container {name!r} does not carry nightsweep's label: it is left alone"


class EngineNotGone(HostError):
    """An engine was stopped and is still there."""

    summary = "engine {handle} is still alive {waited:.0f} s after it was killed: {reason}"


def holder_said(owner: str) -> str:
    """Return a lease's holder for people: its process and machine, out of "host~mark:pid:start:uuid"; another text as it is."""
    parts = owner.split(":")
    if len(parts) != 4 or not parts[1].isdigit():
        return owner
    return f"process {parts[1]} on {parts[0].partition('~')[0]}"


class BoxBusy(HostError):
    """Another holder runs a sweep on this box.

    Facts: `owner` holds it; `sweep` and `name` are of its sweep, `until` is when its lease ends unless it is renewed. A holder
    of another home (a database that is not asked) is known by its owner only.
    """

    summary = "box {box} is taken: {who} runs {what}, and a box has one sweep at a time; {remedy}"

    def __init__(self, **facts: Any) -> None:
        sweep = facts.get("sweep")
        facts.setdefault("who", holder_said(str(facts.get("owner"))))
        if sweep is None:
            facts.setdefault("what", "a sweep of another home")
            facts.setdefault(
                "remedy", "wait for its end, or end it with `nightsweep cancel` under its own NIGHTSWEEP_HOME"
            )
        else:
            facts.setdefault("what", f"sweep {sweep} ({facts.get('name')})")
            facts.setdefault("remedy", f"`nightsweep status {sweep}` shows it, `nightsweep cancel {sweep}` ends it")
        super().__init__(**facts)


class SweepPaused(HostError):
    """A schedule would start a sweep that a person has paused."""

    summary = "sweep {sweep} ({name}) is paused: `nightsweep resume {sweep}` goes on with it now, with --lift the schedule does"


class NotNoted(HostError):
    """The file that says what production must come back cannot be written."""

    summary = "cannot note in {path} that {name} goes down ({reason}): production was not touched"


class ProductionNotGone(HostError):
    """A container was said to be gone for good, and is not."""

    summary = "{name} is not given up: {reason}"


class ProductionComing(HostError):
    """Production was started and does not serve yet, and whoever started it must end now."""

    summary = (
        "production container {name} was started {waited:.0f} s ago and is not proven to serve yet ({missing}): "
        "the service proves it at its next start, `nightsweep restore` does at once"
    )


class ProductionNotRestored(HostError):
    """The production engine did not come back. The loudest error there is.

    Facts: `again` is how a container that was removed is made again; a long line, told once and not in `brief`.
    """

    summary = "production container {name} is NOT serving: {reason}{remedy}"

    def __init__(self, **facts: Any) -> None:
        again, name = facts.get("again"), facts.get("name")
        made = f"; make it again with {again}, then run `nightsweep restore`; or, when it shall not come back, "
        facts.setdefault(
            "remedy", f"{made}`nightsweep restore --gone {name}`" if again else ". Run `nightsweep restore`"
        )
        super().__init__(**facts)

    @property
    def brief(self) -> str:
        """What happened, without the remedy: for what stands beside the whole text."""
        return f"production container {self.facts['name']} is NOT serving: {self.facts['reason']}"

    @property
    def why(self) -> str:
        """The reason, and how a container that was removed is made again: for whoever has named it and tries to restore it."""
        again = self.facts.get("again")
        return str(self.facts["reason"]) + (str(self.facts["remedy"]) if again else "")


# --- BootError: next engine config -------------------------------------------------------------------------------


class BootError(SweepError):
    """This engine config did not come up; the next one may."""


class ImageMissing(BootError):
    """The image is not on the box and could not be had."""

    summary = "image {image} is not here and could not be pulled: {reason}"


class ImageNotInTime(BootError):
    """The image is not on the box, and its pull would end too late for this night."""

    summary = (
        "image {image} is not here, and its pull was given up after {waited:.0f} s: {reason}. "
        "`docker pull {image}` by day has it here for the next night"
    )


class LaunchRefused(BootError):
    """Docker (or the operating system) refused to start the engine."""

    summary = "the engine could not be started: {reason}"


class EngineExited(BootError):
    """The engine ended before it was ready, or while it was needed."""

    summary = "the engine exited with code {exit_code} ({stage}): {reason}"


class NoTokenServed(EngineExited):
    """The engine is healthy and runs, and did not serve its first token: of no more use than one that ended."""

    summary = "the engine runs and serves no token ({stage}): {reason}"


class BootTimeout(BootError):
    """The engine was alive but not ready when its time was up."""

    summary = "the engine was not ready after {waited:.0f} s; last log line: {last_line}"


class DialectMismatch(BootError):
    """The engine does not expose a counter that the measurement needs."""

    summary = "{engine} {version} does not expose {counter}: {reason}"


class IdentityMismatch(BootError):
    """The engine that answers is not the one that this boot started, or not as configured."""

    summary = "the engine that answers is not the one that was started: {reason}"


# --- ProbeError: measure again -----------------------------------------------------------------------------------


class ProbeError(SweepError):
    """A measurement failed; it may succeed when repeated."""


class CounterReset(ProbeError):
    """A counter went backwards between two readings: the engine restarted inside the window."""

    summary = "counter {counter} fell from {before} to {after}: the engine restarted inside the window"


class LoadNotHeld(ProbeError):
    """The asked number of streams could not be brought to run, or did not drain."""

    summary = "{wanted} streams wanted, {running} running after {waited:.0f} s: {reason}"


class RequestFailed(ProbeError):
    """A request of the probe failed."""

    summary = "request to {url} failed: {reason}"


class MetricsUnreadable(ProbeError):
    """The engine's metrics page could not be fetched or parsed."""

    summary = "cannot read {url}: {reason}"


# --- StoreError: stop, lose nothing ------------------------------------------------------------------------------


class StoreError(SweepError):
    """The store is at fault: stop, keep what is in hand, lose nothing."""


class StoreUnavailable(StoreError):
    """PostgreSQL cannot be started or reached."""

    summary = "PostgreSQL is not available: {reason}"


class StoreReadOnly(StoreUnavailable):
    """PostgreSQL answers and takes no writes."""

    summary = (
        "the database takes no writes ({reason}): it is a standby, or `default_transaction_read_only` is on; "
        "point NIGHTSWEEP_DATABASE_URL at the primary, or turn that setting off"
    )


class SpoolUnreadable(StoreError):
    """A file of the spool cannot be read back."""

    summary = "{path} cannot be read back: {reason}"


class LateWriteRefused(StoreError):
    """A measured result that had been spooled was refused; its file is kept aside."""

    summary = "a result that was spooled while the database was away was refused, and is kept in {path}"


class SchemaTooNew(StoreError):
    """The database was made by a newer version of the product."""

    summary = "the database is at schema {found}, newer than this program knows ({known}): upgrade nightsweep"


class RepeatAlreadyStored(StoreError):
    """A second, different value for a repeat that is stored was refused."""

    summary = "a clean window for {what} is stored already; a second one is refused"


class BootAlreadyEnded(StoreError):
    """A boot's ending is recorded; a second, different one was refused."""

    summary = "boot {boot} has ended already ({state}): a second, different ending is refused"


class LeaseLost(StoreError):
    """The sweep was taken over by another holder; this one's writes are refused."""

    summary = "sweep {sweep} was taken over (fence {fence} is no longer current): this write was refused"


class NotFound(StoreError):
    """What was asked for is not in the store."""

    summary = "{what} is not in the store: {hint}"
