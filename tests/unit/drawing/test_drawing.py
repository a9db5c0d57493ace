"""SVG as it is written: the same each time, nothing from outside, our colours, whatever stands in names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import combinations
from xml.etree import ElementTree

import pytest

from nightsweep.analysis.blocks import figures_of
from nightsweep.analysis.palette import DARK, LIGHT, SERIES
from nightsweep.analysis.plots import Bar, Curves, Figure, Lane, Mark, Panel, Series, Stretch, Tick, Timeline
from nightsweep.analysis.report import Reported, report_blocks
from nightsweep.analysis.values import ProductionRow, Spread
from nightsweep.drawing import Drawing, drawings
from tests.unit.analysis.builders import COLD, EVENING, seed_night

pytest.importorskip("matplotlib")

SVG = "{http://www.w3.org/2000/svg}"
XLINK = "{http://www.w3.org/1999/xlink}href"


def seed_figures() -> list[Figure]:
    """Each kind of figure once: those of one temperature."""
    sweep, boots, windows, prefills, plan = seed_night()
    windows = [row for row in windows if row.temperature == COLD]
    down = ProductionRow("vllm-qwen", EVENING, EVENING, None, EVENING, EVENING + timedelta(hours=6), "restored")
    told = Reported(sweep, boots, windows, prefills, plan, "0.1.0", production=[down])
    return figures_of(report_blocks(told))


def a_figure(name: str = "mtp", *, n: int = 2) -> Figure:
    marks = (Mark(0.0, Spread(n, 1, 20.5, 20.0, 21.0, 0.5), (20.0, 21.0)),)
    series = Series(name, 0, marks)
    return Figure(
        "rate", f"Rate of {name}", "", Curves("streams", "tokens/s", (Panel("", (Tick(0.0, "1"),), (series,)),))
    )


@pytest.fixture(scope="module")
def drawn() -> dict[str, Drawing]:
    return drawings(seed_figures())


@pytest.fixture(scope="module")
def for_files(drawn: dict[str, Drawing]) -> dict[str, str]:
    return {name: drawing.for_file for name, drawing in drawn.items()}


@pytest.fixture(scope="module")
def for_a_page(drawn: dict[str, Drawing]) -> dict[str, str]:
    return {name: drawing.for_page for name, drawing in drawn.items()}


def elements(svg: str) -> Iterator[ElementTree.Element]:
    return ElementTree.fromstring(svg).iter()


def said(svg: str) -> str:
    return " ".join("".join(element.itertext()).strip() for element in elements(svg) if element.tag == f"{SVG}text")


def test_every_figure_of_the_report_is_drawn_once(for_files: dict[str, str]) -> None:
    kinds = {re.sub(r"-t\d.*", "", name) for name in for_files}
    assert kinds == {"decode-rate", "step-time", "acceptance", "pareto", "kv-tokens", "spread", "timeline"}


def test_nothing_is_fetched_from_outside(for_files: dict[str, str], for_a_page: dict[str, str]) -> None:
    for svg in (*for_files.values(), *for_a_page.values()):
        tags = {element.tag.removeprefix(SVG) for element in elements(svg)}
        assert not tags & {"image", "script", "foreignObject", "a"}
        links = [value for element in elements(svg) for key, value in element.items() if key in (XLINK, "href")]
        assert links
        assert all(link.startswith("#") for link in links)
        assert not re.search(r"url\((?!#)|@import|@font-face|<!DOCTYPE|<\?xml", svg)


def test_what_an_element_refers_to_is_in_the_same_drawing(for_a_page: dict[str, str]) -> None:
    for name, svg in for_a_page.items():
        ids = [element.get("id") for element in elements(svg) if element.get("id")]
        assert len(ids) == len(set(ids))
        assert all(str(one).startswith(f"{name}-") for one in ids)
        assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg)) <= set(ids)


def test_no_two_drawings_of_a_page_have_an_id_in_common(for_a_page: dict[str, str]) -> None:
    ids = [one for svg in for_a_page.values() for one in re.findall(r'\bid="([^"]+)"', svg)]
    assert len(ids) == len(set(ids))


def test_the_same_figures_give_the_same_text_whatever_the_users_own_settings_are(drawn: dict[str, Drawing]) -> None:
    import matplotlib as mpl

    with mpl.rc_context({"axes.facecolor": "red", "font.size": 20, "svg.fonttype": "path"}):
        again = drawings(seed_figures())
        assert mpl.rcParams["font.size"] == 20
    assert again == drawn


def test_neither_date_nor_maker_is_written(for_files: dict[str, str]) -> None:
    for svg in for_files.values():
        assert "metadata" not in svg
        assert not re.search(r"20\d\d-\d\d-\d\d|[Mm]atplotlib v", svg)


def test_text_stays_text_that_can_be_read_and_searched(for_files: dict[str, str]) -> None:
    found = said(for_files["decode-rate-t0-7"])
    for word in ("mtp k=3", "decode rate, all streams (tokens/s)", "concurrency (streams), n below", "n=3"):
        assert word in found


def test_only_a_simulated_sweeps_plots_say_so() -> None:
    for simulated in (True, False):
        svg = drawings([replace(a_figure(), simulated=simulated)])["rate"].for_page
        assert ("SIMULATED" in said(svg)) is simulated


def test_on_a_page_every_colour_is_a_variable_of_the_page(for_a_page: dict[str, str]) -> None:
    for svg in for_a_page.values():
        styles = " ".join(element.get("style", "") for element in elements(svg))
        assert not re.search(r"(?:fill|stroke): #", styles)
        assert set(re.findall(r"var\(--(\w+)\)", styles)) <= set(LIGHT)


def test_a_file_has_the_light_colours_and_rules_for_dark_screens(for_files: dict[str, str]) -> None:
    for svg in for_files.values():
        styles = " ".join(element.get("style", "") for element in elements(svg))
        used = set(re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", styles))
        assert used <= set(LIGHT.values())
        assert all(f'fill: {colour}"]{{fill:' in svg for colour in used)
        assert "prefers-color-scheme: dark" in svg


@pytest.mark.parametrize(
    "name",
    ["a<script>alert(1)</script>&\"'", "50$ and $x^2$", "_hidden", "模型 k=3", "x" * 400, "red\x1b[31m\x00"],
    ids=["markup", "maths", "underscore", "other characters", "long", "control characters"],
)
def test_whatever_stands_in_a_name_the_drawing_is_whole_and_shows_it(name: str) -> None:
    from nightsweep.analysis import text

    shown = text.printable(name)
    drawn = drawings([replace(a_figure(shown), title=name)])["rate"]
    for svg in (drawn.for_page, drawn.for_file):
        assert shown[:40] in said(svg)
        assert "<script" not in svg


def test_a_config_has_its_colour_in_a_panel_of_its_own_too() -> None:
    marks = (Mark(0.0, Spread(2, 1, 20.5, 20.0, 21.0, 0.5), (20.0, 21.0)),)
    panels = tuple(
        Panel(name, (Tick(0.0, "1"),), (Series(name, style, marks),)) for name, style in (("a", 0), ("b", 2))
    )
    svg = drawings([Figure("rate", "t", "", Curves("streams", "tokens/s", panels))])["rate"].for_page
    assert "var(--s0)" in svg
    assert "var(--s2)" in svg


def test_a_bar_too_short_to_see_is_drawn_all_the_same() -> None:
    lanes = (Lane("mtp", (Bar("window", 10.0, 0.001),)),)
    timeline = Timeline("time", (Stretch("night", 36000.0, (), lanes),))
    svg = drawings([Figure("timeline", "t", "", timeline)])["timeline"].for_page
    assert "var(--s0)" in svg


# --- colours ---------------------------------------------------------------------------------------------------------


def _linear(colour: str) -> tuple[float, float, float]:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return red, green, blue


def _luminance(colour: str) -> float:
    red, green, blue = _linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_series_stand_out_from_the_paper_and_text_can_be_read(scheme: dict[str, str]) -> None:
    assert min(_contrast(scheme[name], scheme["paper"]) for name in SERIES) >= 3.0
    assert min(_contrast(scheme[name], scheme["paper"]) for name in ("ink", "soft", "loud", "warn")) >= 4.5


# Machado, Oliveira, Fernandes (2009), severity 1.0: what protanopes, deuteranopes and tritanopes see, in linear RGB.
BLIND = {
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}


def _lab(linear: tuple[float, ...]) -> tuple[float, float, float]:
    red, green, blue = (min(max(one, 0.0), 1.0) for one in linear)
    xyz = (
        (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505,
        0.2126 * red + 0.7152 * green + 0.0722 * blue,
        (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089,
    )
    x, y, z = (one ** (1 / 3) if one > 0.008856 else 7.787 * one + 16 / 116 for one in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("kind", BLIND)
def test_series_are_told_apart_by_colour_blind_people(kind: str, scheme: dict[str, str]) -> None:
    seen = {}
    for name in SERIES:
        linear = _linear(scheme[name])
        seen[name] = _lab(tuple(sum(a * b for a, b in zip(row, linear, strict=True)) for row in BLIND[kind]))
    apart = {
        (one, other): sum((a - b) ** 2 for a, b in zip(seen[one], seen[other], strict=True)) ** 0.5
        for one, other in combinations(SERIES, 2)
    }
    closest = min(apart, key=lambda pair: apart[pair])
    assert apart[closest] >= 15.0, f"{closest}: {apart[closest]:.1f}"
