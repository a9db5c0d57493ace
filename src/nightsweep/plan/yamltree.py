"""YAML text to plain values that remember where they stood.

PyYAML composes the nodes (its C parser when there is one); scalars are read by YAML 1.2's core rules, so that `22:30` stays
a time and `no` stays a word. What a node's line was is looked up only when a mistake has to be told.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from nightsweep.plan.mistakes import Mistake, Path, shown

# The base loaders resolve no tags: scalars are read here, by other rules, and twice is slow.
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_MAX_NODES = 1_000_000  # aliases of aliases can grow without bound ("billion laughs")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUES = frozenset({"true", "True", "TRUE"})
_FALSES = frozenset({"false", "False", "FALSE"})
_INT = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = {".inf": math.inf, "+.inf": math.inf, "-.inf": -math.inf, ".nan": math.nan}
_CORE = "tag:yaml.org,2002:"


@dataclass(frozen=True)
class Tree:
    """A read file.

    Attributes:
        value: Mappings, lists and scalars; None when the text could not be read.
        mistakes: Syntax errors and repeated keys, with their lines.
        lost: Places whose value could not be read and is None in `value`: nothing more is to be said of them.
    """

    value: Any
    mistakes: tuple[Mistake, ...]
    lost: frozenset[Path] = frozenset()
    root: Any = field(default=None, repr=False)

    def line(self, path: Path) -> int:
        """Return the line (from 1) of what `path` names, or of the nearest thing around it that exists."""
        if self.root is None:
            return 1
        node: Any = self.root
        line = _line(node)
        for step in path:
            found = _child(node, step)
            if found is None:
                return line
            node, line = found
        return line


def read(text: str) -> Tree:
    """Return the values of a YAML text; all mistakes of its form are in `mistakes`, nothing is raised."""
    try:
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        return Tree(value=None, mistakes=(_syntax_mistake(error, text),))
    except (yaml.YAMLError, UnicodeError) as error:
        reason = " ".join(str(error).split())
        return Tree(value=None, mistakes=(Mistake((), reason, "UTF-8 text", line=1),))
    if root is None:
        remedy = "`nightsweep new --from-container NAME` writes a file to start from."
        return Tree(value=None, mistakes=(Mistake((), "an empty file", "a sweep file", remedy, line=1),))
    builder = _Builder()
    value = builder.build(root, ())
    return Tree(value=value, mistakes=tuple(builder.mistakes), lost=frozenset(builder.lost), root=root)


def _syntax_mistake(error: yaml.MarkedYAMLError, text: str) -> Mistake:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark is not None else 1
    lines = text.splitlines()
    written = lines[line - 1] if line <= len(lines) else ""
    problem = " ".join(str(error.problem or error.context or "not YAML").split())
    if re.match(r"\s*\t", written) or "\\t" in problem:
        return Mistake((), "a tab in the indentation", "spaces", "YAML is indented with spaces only.", line=line)
    remedy = "Check indentation, colons, quotes and brackets here and on the line before."
    if "{" in written and not re.search(r"['\"].*\{", written):
        remedy = "A text that starts with `{` must be quoted; otherwise check brackets and commas."
    return Mistake((), f"a syntax error ({problem})", "YAML", remedy, line=line)


def _child(node: Any, step: str | int) -> tuple[Any, int] | None:
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and 0 <= step < len(node.value):
        item = node.value[step]
        return item, item.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in _entries(node):
            if isinstance(key, yaml.ScalarNode) and key.value == step:
                return value, key.start_mark.line + 1
    return None


def _entries(node: Any) -> Iterator[tuple[Any, Any]]:
    """Yield a mapping's own entries first, then those that `<<` merges in."""
    merged: list[Any] = []
    for key, value in node.value:
        if _merges(key):
            merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
        else:
            yield key, value
    for other in merged:
        if isinstance(other, yaml.MappingNode):
            yield from _entries(other)


def _merges(key: Any) -> bool:
    return isinstance(key, yaml.ScalarNode) and key.value == "<<" and not key.style


class _Builder:
    """Builds plain values from nodes, and gathers mistakes of form on the way."""

    def __init__(self) -> None:
        self.mistakes: list[Mistake] = []
        self.lost: set[Path] = set()
        self._open: set[int] = set()
        self._nodes = 0

    def build(self, node: Any, path: Path) -> Any:
        self._nodes += 1
        if not node.tag.startswith(_CORE) or node.tag.startswith(f"{_CORE}python"):
            self._refuse(Mistake(path, f"the tag {shown(node.tag)}", "YAML without tags", line=_line(node)))
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if id(node) in self._open or self._nodes > _MAX_NODES:
            what = "an alias inside itself" if id(node) in self._open else "aliases that grow without bound"
            self._refuse(Mistake(path, what, "plain YAML", line=node.start_mark.line + 1))
            self.lost.add(path)
            return None
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self.build(item, (*path, index)) for index, item in enumerate(node.value)]
            return self._mapping(node, path)
        finally:
            self._open.discard(id(node))

    def _scalar(self, node: Any, path: Path) -> Any:
        value = scalar(node.value, plain=not node.style)
        if isinstance(value, float) and not math.isfinite(value):
            self._refuse(Mistake(path, node.value, "numbers that are finite", line=_line(node)))
            self.lost.add(path)
            return None
        return value

    def _refuse(self, mistake: Mistake) -> None:
        if not self.mistakes or self.mistakes[-1].found != mistake.found:
            self.mistakes.append(mistake)

    def _mapping(self, node: Any, path: Path) -> dict[str, Any]:
        self._check_repeats(node, path)
        built: dict[str, Any] = {}
        for key, value in _entries(node):
            if not isinstance(key, yaml.ScalarNode):
                self._refuse(Mistake(path, "a key that is a list or a mapping", "words as keys", line=_line(key)))
            elif key.value not in built:
                built[key.value] = self.build(value, (*path, key.value))
        return built

    def _check_repeats(self, node: Any, path: Path) -> None:
        first: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or _merges(key):
                continue
            if key.value in first:
                found = f"the key {shown(key.value)} again (first on line {first[key.value]})"
                remedy = "Keep one of the two."
                self.mistakes.append(Mistake((*path, key.value), found, "each key once", remedy, line=_line(key)))
            first.setdefault(key.value, _line(key))


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1


def scalar(text: str, *, plain: bool) -> Any:
    """Return what a scalar means: a quoted one is text; a plain one may be null, a truth value or a number.

    Source:
        YAML 1.2.2, section 10.3.2 (core schema).
    """
    if not plain:
        return text
    if text in _NULLS:
        return None
    if text in _TRUES or text in _FALSES:
        return text in _TRUES
    if _INT.fullmatch(text) and len(text) < 4000:  # Python refuses to read longer ones
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    return _SPECIAL.get(text.lower(), text)


class _Writer(yaml.SafeDumper):
    """Writes texts so that `read` gives them back: PyYAML leaves `1e3` bare, which is a number here."""


def _text(writer: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = None if isinstance(scalar(value, plain=True), str) else '"'
    return writer.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Writer.add_representer(str, _text)


def write(value: Any, *, width: int = 120) -> str:
    """Return plain values as YAML text that `read` gives back, keys in their order."""
    return str(yaml.dump(value, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=width))
