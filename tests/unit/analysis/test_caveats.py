"""Caveats are written from the data: each appears when the data call for it, and only then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nightsweep.analysis.caveats import caveats
from nightsweep.analysis.summary import summarise, summarise_prefills
from nightsweep.analysis.values import WindowRow
from nightsweep.plan.model import DecideSpec
from nightsweep.units import Tokens

from .builders import COLD, WARM, a_boot, a_config, a_failed_boot, a_plan, a_prefill, a_sweep, a_window


def of(*windows: WindowRow, **facts: Any) -> str:
    values: dict[str, Any] = {"boots": [a_boot(boot_id=1), a_boot(boot_id=2)], "prefills": (), "plan": None}
    sweep = facts.pop("sweep", a_sweep())
    return "\n".join(caveats(sweep, cells=summarise(windows), **{**values, **facts}))


def runs(*rates: float, first: int = 1, **facts: Any) -> list[WindowRow]:
    return [a_window(window_id=first + n, repeat=n, decode_rate=rate, **facts) for n, rate in enumerate(rates)]


def test_the_outlier_that_nearly_shipped_is_named_as_one_run() -> None:
    found = of(*runs(178.5, config="dflash2 k=5", concurrency=8))
    assert "one run is not a measurement" in found
    assert "dflash2 k=5 at 8 streams, T=0.7" in found


def test_a_wide_range_is_named_with_its_width() -> None:
    assert "(24%)" in of(*runs(39.7, 33.1, 31.5))
    assert "further apart" not in of(*runs(161.8, 167.8, 160.9))


def test_a_lead_is_open_while_the_runs_overlap() -> None:
    first = runs(39.7, 33.1, 31.5, config="a", config_fingerprint="fp-a")
    assert "is open" in of(*first, *runs(32.0, 32.5, first=10, config="b", config_fingerprint="fp-b"))
    assert "is open" not in of(*first, *runs(25.0, 26.0, first=10, config="b", config_fingerprint="fp-b"))


def test_a_lead_over_a_single_run_is_open_however_far_ahead() -> None:
    first = runs(39.7, 38.9, config="a", config_fingerprint="fp-a")
    assert "is open" in of(*first, *runs(20.0, first=10, config="b", config_fingerprint="fp-b"))


def test_a_lead_is_asked_about_other_configs_and_not_other_conditions() -> None:
    rows = [*runs(20.0, 20.1), *runs(20.2, 20.3, first=10, conditions="cond-b")]
    found = of(*rows)
    assert "is open" not in found
    assert "more than one set of conditions" in found


def test_a_config_that_never_came_up_is_told_from_one_with_a_failed_boot_too() -> None:
    found = of(
        *runs(20.0, 20.1),
        boots=[
            a_boot(),
            a_failed_boot(boot_id=2),
            a_failed_boot(boot_id=3, config="broken", config_fingerprint="fp-broken"),
        ],
    )
    assert "Without any number because the engine did not come up or did not stay up: broken (kv_too_small)." in found
    assert "Measured, but also with failed boots: mtp." in found


def test_planned_cells_without_a_window_are_counted_by_config() -> None:
    found = of(*runs(20.0, 20.1), plan=a_plan(a_config(), a_config("other")))
    assert "3 planned cells without any window: mtp (1); other (2)." in found


def test_a_decision_misses_no_cell_that_its_rule_does_not_ask_for() -> None:
    config = a_config()
    places = tuple((streams, degree, 1.0) for streams in (1, 8) for degree in (COLD, WARM))
    plan = replace(a_plan(config, temperature=(COLD, WARM)), decide=DecideSpec((config.fingerprint,), places, most=6))
    asked = [a_window(concurrency=streams, temperature=degree) for streams, degree in ((8, COLD), (8, WARM), (1, COLD))]
    assert "without any window" not in of(*asked, plan=plan)
    assert "1 planned cell without any window: mtp (1)." in of(*asked[1:], plan=plan)


def test_one_boot_per_config_is_said_and_two_are_not() -> None:
    assert "one boot only" in of(*runs(20.0, 20.1), boots=[a_boot()])
    assert "one boot only" not in of(*runs(20.0, 20.1))


def test_boots_of_which_no_two_share_a_cell_are_said() -> None:
    apart = [
        a_window(window_id=10 * boot + at, repeat=at, boot_id=boot, concurrency=streams)
        for boot, streams in ((1, 1), (2, 8))
        for at in range(2)
    ]
    boots = [a_boot(boot_id=1), a_boot(boot_id=2)]
    assert "1 config had several boots, but each cell in one of them only" in of(*apart, boots=boots)
    shared = [*apart, a_window(window_id=30, repeat=2, boot_id=2, concurrency=1)]
    assert "in one of them only" not in of(*shared, boots=boots)


def test_a_stopped_sweep_says_what_is_left() -> None:
    found = of(sweep=a_sweep(state="partial", note="until 07:00", repeats_planned=10, repeats_clean=4))
    assert "partial (until 07:00): 4 of 10 planned repeats" in found


def test_other_engine_versions_in_one_sweep_are_said() -> None:
    found = of(*runs(20.0, 20.1), boots=[a_boot(), a_boot(boot_id=2, engine_version="0.27.1")])
    assert "Several engine versions: 0.27.1, 0.28.0." in found


def test_steps_that_do_not_draft_are_said() -> None:
    rows = runs(20.0, 20.1, acceptance_length=3.0, tokens_per_step_and_stream=1.4)
    assert "not every step drafts: mtp" in of(*rows)


def test_the_proxy_is_said_because_ttft_includes_it() -> None:
    assert "proxy" in of(*runs(20.0, 20.1), plan=a_plan(through="https://gateway.lan/v1"))


def test_a_lost_boot_is_said() -> None:
    assert "1 boot was lost" in of(*runs(20.0, 20.1), boots=[a_boot(), a_boot(boot_id=2, state="lost")])


def test_prefills_without_a_number_are_named_with_their_length_and_load() -> None:
    lost: dict[str, Any] = {"rate": None, "ttft": None, "flags": ("request_failed",), "prompt_tokens": None}
    rows = [a_prefill(prefill_id=n, tokens=Tokens(40000), under_load=2 * n, **lost) for n in (0, 1)]
    found = of(*runs(20.0, 20.1), prefills=summarise_prefills(rows))
    assert "mtp of 40,000 tokens (request_failed), mtp of 40,000 tokens under 2 streams (request_failed)" in (
        found.replace(";", ",")
    )
