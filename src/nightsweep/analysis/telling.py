"""What people are told when a night ends: a short message, with everything that must not be missed and nothing that is secret."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nightsweep.analysis import text
from nightsweep.analysis.morning import Night, best_lines
from nightsweep.analysis.notices import LEVELS, Notice
from nightsweep.analysis.values import ProductionRow, down_of, newest_of_each

STATES = {"done": "done", "failed": "failed", "cancelled": "cancelled", "paused": "cancelled"}
BEST_SHOWN = 5
PROBLEMS_SHOWN = 5


def kind_of(night: Night) -> str:
    """Return what there is to tell of a sweep that has stopped."""
    if night.sweep.state == "done" and not night.sweep.repeats_clean:
        return "failed"
    return STATES.get(night.sweep.state, "night_over")


def notice_of(
    night: Night,
    *,
    problems: Sequence[str],
    summary: str | None,
    broke_off: bool = False,
    failed: Sequence[str] = (),
) -> Notice:
    """Return the message of a night that is over. Call it once production was brought back, or could not be.

    Args:
        problems: What went wrong on the way, for people.
        summary: Where the summary lies; None when none was written.
        broke_off: Whether an error ended the sweep, whatever of that could be stored.
        failed: Configs that failed, by name.
    """
    sweep = night.sweep
    down = [row.container for row in down_of(night.production)]
    kind = "production_not_restored" if down else "failed" if broke_off else kind_of(night)
    loud = f" [{text.SIMULATED}]" if sweep.simulated else ""
    title = f"{sweep.name}: {_headline(night, kind, failed)}, {sweep.repeats_clean:,} of {sweep.repeats_planned:,} windows{loud}"
    if down:
        title = f"PRODUCTION IS NOT SERVING: {', '.join(down)} on {sweep.box} (sweep {title})"
    body = "\n".join(text.printable(line) for line in _lines(night, down, problems=problems, summary=summary))
    level = "warning" if kind == "done" and failed else LEVELS[kind]
    return Notice(kind, level, text.printable(title), body)


def not_restored(container: str, *, box: str, reason: str) -> Notice:
    """Return the message that production does not serve, told by whoever tried to bring it back."""
    title = f"PRODUCTION IS NOT SERVING: {container} on {box}"
    body = f"{reason}\nNext: look at `docker logs {container}`, then run `nightsweep restore`."
    return Notice("production_not_restored", LEVELS["production_not_restored"], text.printable(title), body)


def restored_after_all(container: str, *, box: str, detail: str) -> Notice:
    """Return the message that takes `not_restored` back."""
    return Notice("production_not_restored", "success", f"production serves again: {container} on {box}", detail)


def trial_notice(box: str) -> Notice:
    """Return a message that says nothing but that messages arrive."""
    body = "This is a test. Sweeps that end, and production that does not come back, are told here."
    return Notice("test", LEVELS["test"], f"nightsweep on {box} can reach you", body)


def _headline(night: Night, kind: str, failed: Sequence[str]) -> str:
    if kind == "done" and failed:
        return f"done, but {len(failed)} of {text.plural(night.sweep.configs, 'config')} failed"
    if kind == "night_over":
        return "night over, work left" if night.left else "night over"
    return night.sweep.state if kind == "cancelled" else kind.replace("_", " ")


def _lines(night: Night, down: Sequence[str], *, problems: Sequence[str], summary: str | None) -> Iterator[str]:
    sweep = night.sweep
    left = "" if night.left is None else f", {night.left:,} left"
    yield f"{sweep.repeats_clean:,} of {sweep.repeats_planned:,} planned windows done{left}. {sweep.note or ''}".rstrip()
    for row in newest_of_each(night.production):
        yield f"Production {row.taken_over_said(night.local) or f'{row.container}: {_back(row, night)}'}."
    best = best_lines(night.cells)
    if best:
        yield "Ahead so far (decode rate, all streams):"
        yield from (f"- {line}" for line in best[:BEST_SHOWN])
        if len(best) > BEST_SHOWN:
            yield f"- and {len(best) - BEST_SHOWN} more in the summary"
        yield f"Conditions: {_conditions(night)}"
    if problems:
        yield f"Problems ({len(problems)}):"
        yield from (f"- {problem}" for problem in problems[:PROBLEMS_SHOWN])
    yield f"Next: {'run `nightsweep restore`' if down else night.goes_on}"
    if summary is not None:
        yield f"Summary: {summary}"


def _back(row: ProductionRow, night: Night) -> str:
    if row.fares == "serves":
        return f"serves again since {night.local(row.closed)} ({night.zone})"
    if row.fares == "starting":
        return f"is starting since {night.local(row.restore_started)} ({night.zone}); whoever comes next proves it"
    return row.said


def _conditions(night: Night) -> str:
    """Return under which conditions the numbers hold, as far as a line can say it."""
    versions = sorted({version for cell in night.cells for version in cell.engine_versions})
    engine = f"engine {' and '.join(versions)}, " if versions else ""
    loud = f", {text.SIMULATED}" if night.sweep.simulated else ""
    return f"{engine}box {night.sweep.box}{loud}; they hold for these only"
