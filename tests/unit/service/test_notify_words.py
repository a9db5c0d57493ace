"""What a service or a block says of a message that it did not take: told as far as it is no secret."""

from __future__ import annotations

from nightsweep.service.notify import cut, shown, without_urls

API = "http://127.0.0.1:4200/api"
ADDRESSES = ("slack://T0k3nA/T0k3nB/T0k3nC", "prefect://slack-webhook/night")


def test_a_block_is_named_and_a_service_is_not() -> None:
    assert shown(ADDRESSES[0], 0) == "slack://*** (address 1 of NIGHTSWEEP_NOTIFY)"
    assert shown(ADDRESSES[1], 1) == "prefect://slack-webhook/night (address 2 of NIGHTSWEEP_NOTIFY)"


def test_the_name_of_a_block_is_no_secret_in_what_prefect_says_of_it() -> None:
    said = "ValueError: Unable to find block document named night for block type slack-webhook; T0k3nB is wrong"
    assert cut(said, ADDRESSES) == said.replace("T0k3nB", "***")


def test_where_a_block_sends_to_is_cut_and_prefects_own_address_is_not() -> None:
    said = f"HTTPStatusError: '404' for url 'https://hooks.slack.com/services/T/B/s3cr3t' (server {API}/blocks)"
    told = without_urls(said, but=API)
    assert told == f"HTTPStatusError: '404' for url 'https://***' (server {API}/blocks)"
    assert without_urls("see http://x.example/a", but="") == "see http://***"
