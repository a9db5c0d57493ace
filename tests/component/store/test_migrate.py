"""Migrations on a real database."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from nightsweep.errors import SchemaTooNew, StoreUnavailable
from nightsweep.store import schema
from nightsweep.store.decisions import Decisions
from nightsweep.store.migrate import alembic_config, current, upgrade
from nightsweep.store.postgres import PostgresStore, connect
from nightsweep.store.queries import Queries
from tests.storekit.builders import a_night, a_production


@pytest.fixture
def empty(empty_database_url: str) -> Iterator[sa.Engine]:
    engine = connect(empty_database_url)
    yield engine
    engine.dispose()


def test_an_empty_database_is_brought_to_the_newest_schema_without_a_word(
    empty: sa.Engine, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert current(empty) is None
    upgrade(empty)
    assert current(empty) == schema.HEAD
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


def test_upgrading_twice_is_upgrading_once(engine: sa.Engine) -> None:
    upgrade(engine)
    assert current(engine) == schema.HEAD


def test_several_programs_may_upgrade_at_once(empty: sa.Engine) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: upgrade(empty), range(4)))
    assert current(empty) == schema.HEAD


def test_the_migrations_and_the_models_are_one_schema(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, schema.metadata) == []
        heads = ScriptDirectory.from_config(alembic_config(connection)).get_heads()
    assert heads == [schema.HEAD]


def test_the_way_back_leaves_nothing(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        command.downgrade(alembic_config(connection), "base")
        assert sa.inspect(connection).get_table_names() == ["alembic_version"]
    upgrade(engine)


def test_production_that_an_earlier_version_took_down_has_no_traffic_and_is_still_owed(
    engine: sa.Engine, store: PostgresStore
) -> None:
    night = a_night(store)
    intent = store.open_intent(night.lease, a_production(), restore_by=None, record={"url": "http://h"})
    with engine.begin() as connection:
        command.downgrade(alembic_config(connection), "0013")
    upgrade(engine)
    (row,) = Queries(engine).productions(night.sweep_id)
    assert (row.container, row.traffic) == ("vllm-qwen", None)
    assert [owed.intent_id for owed in store.owed(night.box_id)] == [intent]
    assert "nothing of vllm-qwen was recorded" in str(Decisions(engine).traffic(night.sweep_id, "vllm-qwen"))


def test_a_database_of_a_newer_program_is_refused_and_not_touched(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(SchemaTooNew, match="9999, newer than this program knows"):
        upgrade(engine)
    assert current(engine) == "9999"


def test_a_database_that_is_not_there_is_unavailable(database_url: str) -> None:
    engine = connect(database_url + "-not")
    with pytest.raises(StoreUnavailable, match=r"does not exist|No such file"):
        upgrade(engine)
    engine.dispose()
