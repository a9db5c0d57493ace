"""Where the recorded logs and pages are, and how tests read them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from nightsweep.engine.values import FailureEvidence

DATA = Path(__file__).parents[2] / "data"


def lines_of_file(kind: str, name: str) -> list[str]:
    """The lines of a recorded log, split at line feeds only, as a log comes."""
    return (DATA / kind / name).read_bytes().decode("utf-8", errors="replace").split("\n")


def names(kind: str, *, suffix: str) -> list[str]:
    return sorted(path.name for path in (DATA / kind).glob(f"*{suffix}"))


def cases(name: str) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = yaml.safe_load((DATA / "cases" / f"{name}.yaml").read_text())
    return loaded


def samples(text: str) -> list[tuple[str, dict[str, str], float]]:
    families = text_string_to_metric_families(text)
    return [(sample.name, sample.labels, sample.value) for family in families for sample in family.samples]


def page(name: str) -> list[tuple[str, dict[str, str], float]]:
    text = (DATA / "metrics" / name).read_text()
    return samples(text.split("\n", 1)[1])


def evidence(lines: Iterable[str] = (), **facts: Any) -> FailureEvidence:
    """What is known of a bad end; a test names only what it is about."""
    told: dict[str, Any] = {
        "exit_code": None,
        "oom_killed": None,
        "ready": False,
        "timed_out": False,
        "killed_by_us": False,
        "seconds": 60.0,
    }
    return FailureEvidence(lines=tuple(lines), **{**told, **facts})
