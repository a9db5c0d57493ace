"""Blocks as one HTML page that needs nothing else: no network, no script; for light and dark screens and for paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup, escape

from nightsweep.analysis import text
from nightsweep.analysis.blocks import Block, Bullets, Details, Heading, Lines, Paragraph, left_out
from nightsweep.analysis.palette import style_sheet
from nightsweep.analysis.plots import Figure
from nightsweep.analysis.tables import Table

PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{{ title }}</title>
<style>
{{ colours }}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 92rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 1rem; }
h2 { font-size: 1.2rem; margin: 2.25rem 0 .6rem; padding-top: .9rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.5rem 0 .4rem; }
p, li { max-width: 62rem; }
ul { padding-left: 1.2rem; margin: .5rem 0; }
li { margin: .15rem 0; }
.loud { color: var(--loud); font-weight: 600; }
.table { overflow-x: auto; margin: .75rem 0; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding-bottom: .35rem; caption-side: top; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { color: var(--soft); font-weight: 600; vertical-align: bottom; border-bottom-width: 2px; }
th small { display: block; font-weight: 400; }
.right { text-align: right; white-space: nowrap; }
tr.group th { color: var(--ink); background: var(--band); }
tr.failed td { color: var(--loud); }
tr.flagged td, tr.single td { color: var(--warn); }
.notes { color: var(--soft); font-size: .9rem; }
code { background: var(--band); padding: .05rem .3rem; border-radius: 3px; font-size: .9em; }
pre { background: var(--band); padding: .7rem .9rem; overflow-x: auto; font-size: .82rem; line-height: 1.4; border-radius: 4px; }
figure { margin: 1.25rem 0; overflow-x: auto; }
figure svg { display: block; max-width: 100%; min-width: 44rem; height: auto; }
figcaption { color: var(--soft); font-size: .9rem; max-width: 62rem; }
figcaption strong { color: var(--ink); }
details { margin: .75rem 0; }
summary { cursor: pointer; }
@media print { body { font-size: 11pt; } main { padding: 0; } .table, pre { overflow: visible; } pre { white-space: pre-wrap; } }
</style>
</head>
<body>
<main>
{% macro shown(blocks) %}{% for kind, block in blocks|kinds -%}
{% if kind == "heading" %}<h{{ block.level }}>{{ block.text }}</h{{ block.level }}>
{% elif kind == "paragraph" %}<p{% if block.loud %} class="loud"{% endif %}>{{ block.text|prose }}</p>
{% elif kind == "bullets" %}<ul>
{% for item in block.items %}<li{% if block.loud and item.startswith(block.loud) %} class="loud"{% endif %}>{{ item|prose }}</li>
{% endfor %}</ul>
{% elif kind == "lines" %}<pre>{% for line in block.lines %}{{ line }}
{% endfor %}</pre>
{% elif kind == "details" %}<details><summary>{{ block.summary }}</summary>
{{ shown(block.blocks) }}</details>
{% elif kind == "figure" %}<figure id="{{ block.name }}">
{{ svg[block.name] }}
<figcaption><strong>{{ block.title }}.</strong> {{ block.caption|prose }}\
{% if block.simulated %} <span class="loud">{{ simulated }}</span>{% endif %}</figcaption></figure>
{% else %}<div class="table"><table>
<caption>{{ block.caption }}</caption>
<thead><tr>{% for column in block.columns %}<th{% if column.right %} class="right"{% endif %}>{{ column.heading }}\
{% if column.unit %}<small>{{ column.unit }}</small>{% endif %}</th>{% endfor %}</tr></thead>
<tbody>
{% for group in block.groups %}{% if block.label %}<tr class="group">\
<th colspan="{{ block.columns|length }}">{{ group.heading }}</th></tr>
{% endif %}{% for row in group.rows %}<tr{% if row.mark %} class="{{ row.mark }}"{% endif %}>\
{% for value in row.values %}{% set column = block.columns[loop.index0] %}<td{% if column.right %} class="right"{% endif %}>\
{% if loop.index0 in row.strong %}<strong>{{ value }}</strong>{% else %}{{ value }}{% endif %}</td>{% endfor %}</tr>
{% endfor %}{% endfor %}</tbody></table></div>
{% if block.notes %}<ul class="notes">{% for note in block.notes %}<li>{{ note }}</li>{% endfor %}</ul>
{% endif %}{% endif %}{% endfor -%}{% endmacro %}{{ shown(blocks) }}
</main>
</body>
</html>
"""

KINDS = {
    Heading: "heading",
    Paragraph: "paragraph",
    Bullets: "bullets",
    Lines: "lines",
    Details: "details",
    Figure: "figure",
    Table: "table",
}
NO_DRAWINGS: Mapping[str, str] = MappingProxyType({})


def page(blocks: Sequence[Block], *, title: str, drawings: Mapping[str, str] = NO_DRAWINGS) -> str:
    """Return the page. Whatever comes from outside is escaped, and control characters are left out.

    Args:
        drawings: SVG of each plot by its name, put in as it is; a plot without one is left out.
    """
    shown: list[Block] = []
    for block in blocks:
        if not isinstance(block, Figure) or block.name in drawings:
            shown.append(block)
        elif block.plot is None:
            shown.append(left_out(block))
    svg = {name: Markup(drawing) for name, drawing in drawings.items()}  # our own, escaped by who drew it
    return _template().render(
        title=title, blocks=shown, svg=svg, colours=Markup(style_sheet()), simulated=text.SIMULATED
    )


@cache
def _template() -> Template:
    made = Environment(autoescape=True, undefined=StrictUndefined, finalize=_printable, keep_trailing_newline=True)
    made.filters["prose"] = _prose
    made.filters["kinds"] = _kinds
    return made.from_string(PAGE)


def _kinds(blocks: Sequence[Block]) -> list[tuple[str, Block]]:
    return [(KINDS[type(block)], block) for block in blocks]


def _prose(value: str) -> Markup:
    """Return text with what stands between two backticks as code."""
    parts = text.printable(value).split("`")
    if len(parts) % 2 == 0:
        return escape(text.printable(value))
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(part) if place % 2 else escape(part) for place, part in enumerate(parts))


def _printable(value: object) -> object:
    return text.printable(value) if type(value) is str else value  # what is markup already is ours, and clean
