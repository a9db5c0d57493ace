"""What a boot did not apply comes back from the database with the boot and with each of its windows."""

from __future__ import annotations

from dataclasses import replace

from nightsweep.analysis.values import Filters
from nightsweep.engine.values import Applied, KvBudget
from nightsweep.store.postgres import PostgresStore
from nightsweep.store.queries import Queries
from tests.storekit.builders import EVENING, a_night, a_ready, a_window

WHY = "rejection_sample_method 'block' is silently ignored"
BUDGET = KvBudget(tokens=74_000, max_concurrency=2.26, blocks=4_625, block_size=16, source="vllm:cache_config_info")


def test_what_was_not_applied_and_the_second_source_come_back_as_they_were(
    store: PostgresStore, queries: Queries
) -> None:
    night = a_night(store)
    applied = Applied(not_applied=(WHY,), notes=("fell back",), kv_second=(BUDGET,))
    store.boot_ready(night.lease, night.boot_id, replace(a_ready(), applied=applied), at=EVENING)
    night.keep(replace(a_window(), notes=("dead drafter: x",)))
    (boot,) = queries.boots(Filters())
    assert (boot.not_applied, boot.notes) == ((WHY,), ("fell back",))
    assert boot.kv_second["vllm:cache_config_info"]["tokens"] == 74_000
    (window,) = queries.windows(Filters())
    assert window.not_applied == (WHY,)
    assert window.notes == ("fell back", "dead drafter: x")
    assert window.flags == ()
