"""The colours of pages and plots by name, for light and dark screens.

The series' colours began as those of Okabe and Ito (https://jfly.uni-koeln.de/color/) and were moved until each stands out
from its paper by 3:1 (WCAG 2.2, 1.4.11) and any two stay far apart for every kind of colour blindness; tests hold both.
"""

from __future__ import annotations

from collections.abc import Mapping

LIGHT: Mapping[str, str] = {
    "ink": "#1c1e21",
    "soft": "#5d6470",
    "paper": "#ffffff",
    "line": "#d9dde3",
    "band": "#f5f6f8",
    "loud": "#b42318",
    "warn": "#8a5a00",
    "pale": "#b9bfc8",
    "s0": "#1c4da3",
    "s1": "#d37e00",
    "s2": "#00814f",
    "s3": "#bf7a9f",
    "s4": "#8a5000",
    "s5": "#2998eb",
    "s6": "#1c1e21",
}
DARK: Mapping[str, str] = {
    "ink": "#e6e8eb",
    "soft": "#9aa3af",
    "paper": "#15171a",
    "line": "#343941",
    "band": "#1e2125",
    "loud": "#ff8a80",
    "warn": "#f0c36d",
    "pale": "#525963",
    "s0": "#3c80ba",
    "s1": "#e27540",
    "s2": "#1ee18c",
    "s3": "#c8879c",
    "s4": "#fcd723",
    "s5": "#a2cbff",
    "s6": "#e6e8eb",
}
SERIES = tuple(name for name in LIGHT if name[0] == "s" and name[1:].isdigit())
"""Names of the series' colours, in order."""


def variables(colours: Mapping[str, str]) -> str:
    """Return the colours as CSS variables."""
    return " ".join(f"--{name}: {value};" for name, value in colours.items())


def style_sheet() -> str:
    """Return the CSS that sets the variables for light and for dark screens."""
    dark = f"@media (prefers-color-scheme: dark) {{ :root {{ {variables(DARK)} }} }}"
    return f":root {{ {variables(LIGHT)} }}\n{dark}"
