"""The same blocks as a page and as Markdown, with plots and without."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from nightsweep.analysis import markdown
from nightsweep.analysis.blocks import Block, Details, Heading, Lines, Paragraph, figures_of, without_plots
from nightsweep.analysis.page import page
from nightsweep.analysis.palette import DARK, LIGHT
from nightsweep.analysis.plots import Figure, Strip, Strips
from nightsweep.analysis.report import Reported, report_blocks, title_of

from .builders import seed_night

PLOT = Strips("%", (Strip("mtp", "n=2", 0, (-1.0, 1.0)),))
DRAWN = Figure("spread", "Spread", "Each dot is `one` window.", PLOT, simulated=True)
MISSING = Figure("pareto", "Few against many", "", None, "one concurrency alone was measured")
BLOCKS: list[Block] = [
    Heading(1, "Report"),
    DRAWN,
    MISSING,
    Details("Commands", (Paragraph("mtp:"), Lines(("vllm",), "sh"))),
]
SVG = '<svg id="spread-x"></svg>'


class Tags(HTMLParser):
    """Collects what a page would load, and whether its tags are closed."""

    VOID = ("meta", "br", "hr", "img", "input", "link")

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [f"{tag} {key}={value}" for key, value in attrs if key in ("src", "href", "srcset", "data")]
        self.loads += [tag] if tag in ("script", "link", "iframe", "object", "img") else []
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_plot_stands_in_the_page_with_its_caption_and_the_loud_word() -> None:
    found = page(BLOCKS, title="Report", drawings={"spread": SVG})
    assert f'<figure id="spread">\n{SVG}' in found
    assert "Each dot is <code>one</code> window." in found
    assert re.search(r'<span class="loud">SIMULATED</span></figcaption>', found)


def test_a_plot_that_there_is_nothing_for_is_a_line_that_says_why() -> None:
    line = "Few against many: no plot, because one concurrency alone was measured."
    assert line in page(BLOCKS, title="Report", drawings={"spread": SVG})
    assert line in markdown.document(BLOCKS)
    assert line in markdown.document(without_plots(BLOCKS))


def test_without_drawings_no_empty_figure_is_left() -> None:
    assert "<figure" not in page(BLOCKS, title="Report")
    assert "![" not in markdown.document(BLOCKS)
    assert figures_of(without_plots(BLOCKS)) == []


def test_markdown_refers_to_the_picture_beside_it() -> None:
    found = markdown.document(BLOCKS, pictures={"spread": "night-plots/spread.svg"})
    assert "![Spread](night-plots/spread.svg)\n\n*Spread.* Each dot is `one` window. **SIMULATED**" in found


def test_what_is_folded_away_stands_in_both() -> None:
    assert "<details><summary>Commands</summary>\n\nmtp:\n\n```sh\nvllm\n```\n\n</details>" in markdown.document(BLOCKS)
    assert re.search(r"<details><summary>Commands</summary>\s*<p>mtp:</p>\s*<pre>vllm\n</pre>", page(BLOCKS, title="t"))


def test_a_whole_report_as_a_page_loads_nothing_and_closes_what_it_opens() -> None:
    sweep, boots, windows, prefills, plan = seed_night(simulated=True)
    blocks = report_blocks(Reported(sweep, boots, windows, prefills, plan, "0.1.0"))
    drawn = {figure.name: SVG.replace("spread", figure.name) for figure in figures_of(blocks)}
    found = page(blocks, title=title_of(sweep), drawings=drawn)
    tags = Tags()
    tags.feed(found)
    assert tags.loads == []
    assert tags.open == []
    assert "http" not in found.replace("http://www.w3.org/2000/svg", "")
    assert found.count("<figure") == len(drawn) >= 10


def test_every_plot_has_a_table_of_numbers_near_it() -> None:
    sweep, boots, windows, prefills, plan = seed_night()
    blocks = report_blocks(Reported(sweep, boots, windows, prefills, plan, "0.1.0"))
    kinds = [type(block).__name__ for block in blocks]
    for at, kind in enumerate(kinds):
        if kind == "Figure":
            assert "Table" in kinds[at + 1 : at + 4]


def test_the_page_has_the_colours_of_the_plots_for_light_and_dark_screens() -> None:
    found = page(BLOCKS, title="Report")
    assert f"--s0: {LIGHT['s0']};" in found
    assert f"--s0: {DARK['s0']};" in found.split("prefers-color-scheme: dark")[1]
