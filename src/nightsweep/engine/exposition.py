"""Samples of a metrics page in Prometheus' text format, by the client library's own parser."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def samples_of(page: str, *, names: frozenset[str]) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """Yield (name, labels, value) of the wanted series of a page.

    A page has hundreds of lines and few are wanted: only those are looked at. Names match exactly, so `_created`
    companions and longer names do not slip in. A line that cannot be parsed is passed over.
    """
    from prometheus_client.parser import text_string_to_metric_families  # most commands read no page

    for line in _lines_of(page, names):
        try:
            for family in text_string_to_metric_families(line + "\n"):
                for sample in family.samples:
                    yield sample.name, sample.labels, float(sample.value)
        except ValueError:
            continue


def _lines_of(page: str, names: frozenset[str]) -> Iterator[str]:
    for name in names:
        start = page.find(name)
        while start >= 0:
            end = start + len(name)
            if page[end : end + 1] in ("{", " ") and (start == 0 or page[start - 1] == "\n"):
                yield page[start:].partition("\n")[0]
            start = page.find(name, end)
