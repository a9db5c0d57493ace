"""The load through a TLS proxy: its authority, its key, HTTP/1.1 and 2; counters straight from the engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nightsweep.errors import InvalidPlan
from nightsweep.measurement.derive import derive
from nightsweep.ports import Secret, Target
from nightsweep.probe.client import require_ca
from nightsweep.probe.http_probe import HttpProbe
from nightsweep.probe.window import Patience
from nightsweep.units import Seconds
from tests.contract.test_probe import DIALECT, RealClock, a_window, always
from tests.data.tiny_openai_engine import MODEL, TinyEngine
from tests.data.tiny_tls_proxy import TinyTlsProxy, make_authority

IMPATIENT = Patience(gauges=Seconds(1.0), dying=Seconds(0.2), idle=Seconds(2.0))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def engine() -> Iterator[TinyEngine]:
    with TinyEngine() as started:
        yield started


@pytest.fixture
def probe() -> Iterator[HttpProbe]:
    with HttpProbe(clock=RealClock(), patience=IMPATIENT) as made:
        yield made


def target_of(engine: TinyEngine, proxy: TinyTlsProxy, **fields: Any) -> Target:
    return Target(engine.url, proxy.url, MODEL, DIALECT, api_key=Secret("gateway-key"), **fields)


@pytest.mark.parametrize("http2", [False, True])
def test_a_window_through_the_proxy_is_as_clean_as_one_without_it(
    engine: TinyEngine, probe: HttpProbe, authority: tuple[Path, Path], http2: bool
) -> None:
    ca, chain = authority
    with TinyTlsProxy(engine.url, chain=chain) as proxy:
        target = target_of(engine, proxy, ca=str(ca), http2=http2)
        raw = probe.window(target, a_window(concurrency=4, window=Seconds(1.0)), alive=always)
        result = derive(raw, dialect=DIALECT, num_speculative_tokens=3)
        assert result.flags == (), result.flag_details
        assert result.notes == ()
        assert result.numbers is not None
        assert result.numbers.own_tokens == pytest.approx(result.numbers.generation_tokens, abs=80)
        assert result.numbers.tpot is not None
        assert result.numbers.tpot.mean == pytest.approx(4 / result.numbers.decode_rate, rel=0.2)
        assert set(proxy.versions) == {"h2" if http2 else "http/1.1"}
        assert len(proxy.versions) == (1 if http2 else 4)
        assert set(proxy.keys) == {"Bearer gateway-key"}
        assert raw.detail is None, "streams that were ended by the probe ended on the engine too"


def test_http2_leaves_no_trace_on_what_speaks_1_1_afterwards(
    engine: TinyEngine, probe: HttpProbe, authority: tuple[Path, Path]
) -> None:
    ca, chain = authority
    with TinyTlsProxy(engine.url, chain=chain) as proxy:
        for http2 in (True, False, True, False):
            raw = probe.window(target_of(engine, proxy, ca=str(ca), http2=http2), a_window(), alive=always)
            assert derive(raw, dialect=DIALECT, num_speculative_tokens=3).clean, raw.detail
        assert set(proxy.versions) == {"h2", "http/1.1"}


def test_a_proxy_without_http2_is_spoken_to_in_1_1(
    engine: TinyEngine, probe: HttpProbe, authority: tuple[Path, Path]
) -> None:
    ca, chain = authority
    with TinyTlsProxy(engine.url, chain=chain, http2=False) as proxy:
        raw = probe.window(target_of(engine, proxy, ca=str(ca), http2=True), a_window(), alive=always)
        assert set(proxy.versions) == {"http/1.1"}
    assert derive(raw, dialect=DIALECT, num_speculative_tokens=3).clean


@pytest.mark.parametrize("http2", [False, True])
def test_a_proxy_that_nobody_vouches_for_gets_nothing(
    engine: TinyEngine, probe: HttpProbe, authority: tuple[Path, Path], http2: bool
) -> None:
    with TinyTlsProxy(engine.url, chain=authority[1]) as proxy:
        raw = probe.window(target_of(engine, proxy, http2=http2), a_window(ramp_timeout=Seconds(2.0)), alive=always)
        assert proxy.keys == [], "the key went to a server that is not the one meant"
    assert raw.before is None
    assert "certificate verify failed" in (raw.detail or "")


def test_an_authority_that_cannot_be_used_is_told_before_anything_is_touched(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("no certificate\n")
    with pytest.raises(InvalidPlan, match=r"probe\.ca: .*missing\.pem' cannot be read \(No such file"):
        require_ca(str(tmp_path / "missing.pem"))
    with pytest.raises(InvalidPlan, match="holds no certificate in PEM form"):
        require_ca(str(tmp_path / "empty.pem"))
    require_ca(None)
