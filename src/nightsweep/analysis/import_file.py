"""The sweep file that imported configs would stand in: what `decide`, `decisions` and `plan` read of a sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from nightsweep.analysis.tables import names_apart
from nightsweep.plan import yamltree
from nightsweep.plan.expand import default_command
from nightsweep.plan.fingerprint import fingerprint
from nightsweep.plan.words import IMPORT_WROTE, UNKNOWN_TEMPERATURE

HEAD = f"{IMPORT_WROTE}: what the imported files state."
OWED = "Volumes, devices, environment and production are not known: fill them in before this is run."
NO_IMAGE = "The image is not known: write `host: docker` and `image:` in place of `host: process` and `command:`."
Document = Mapping[str, Any]
OF_AN_ENTRY = ("image", "model", "model_revision", "args", "env", "command", "speculative")


def sweep_file(name: str, configs: Sequence[tuple[str, Document]], *, cells: Sequence[tuple[int, Decimal]]) -> str:
    """Return the text of a sweep file of these configs, whose documents it gives again where image and model are known.

    Args:
        configs: Name and document of each, in their order.
        cells: (streams, temperature) that were imported.
    """
    documents = [document for _, document in configs]
    marks = [fingerprint(document) for document in documents]
    names = names_apart(zip((named for named, _ in configs), marks, strict=True))
    engine: dict[str, Any] = {"kind": _most(documents, "engine"), "host": "docker"}
    nameless = all(document.get("image") is None for document in documents)
    if nameless:  # a file needs an image for Docker, and one that nobody told would be another config
        engine |= {"host": "process", "command": list(default_command(engine["kind"], "docker"))}
    engine |= {key: value for key in ("image", "model") if (value := _most(documents, key)) is not None}
    args = {key: value for key, value in dict(documents[0].get("args", {})).items() if _shared(documents, key, value)}
    if args:
        engine["args"] = args
    temperatures = sorted({float(t) for _, t in cells if t != UNKNOWN_TEMPERATURE})
    file = {
        "name": name,
        "engine": engine,
        "configs": [
            dict(_entry(names[mark], document, engine)) for mark, document in zip(marks, documents, strict=True)
        ],
        "probe": {"concurrency": sorted({streams for streams, _ in cells}), "temperature": temperatures or [0.0]},
    }
    lines = [HEAD, f"# {OWED}"]
    lines += [f"# {NO_IMAGE}"] if nameless else []
    lines += [] if temperatures else ["# The temperature is not known: 0 stands for it here."]
    return "\n".join(lines) + "\n" + yamltree.write(file)


def _most(documents: Sequence[Document], key: str) -> Any:
    values = [document.get(key) for document in documents if document.get(key) is not None]
    return max(values, key=values.count, default=None)


def _shared(documents: Sequence[Document], key: str, value: Any) -> bool:
    return all(document.get("args", {}).get(key) == value for document in documents)


def _entry(name: str, document: Document, engine: Document) -> Iterator[tuple[str, Any]]:
    yield "name", name.replace("{", "{{").replace("}", "}}")
    for key in OF_AN_ENTRY:
        value = document.get(key)
        if key == "args":
            value = {name: one for name, one in (value or {}).items() if name not in engine.get("args", {})}
        if key == "command" and tuple(value or ()) == default_command(str(engine["kind"]), "docker"):
            continue
        if value not in (None, {}, []) and value != engine.get(key):
            yield key, value
