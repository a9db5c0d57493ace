"""What stands behind windows: the documents of their fingerprints."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from nightsweep.analysis.sides import Documents, Pool
    from nightsweep.analysis.values import WindowRow


class Expands(Protocol):
    """Reads documents by their fingerprints."""

    def condition_documents(self, fingerprints: Collection[str]) -> Mapping[str, Mapping[str, Any]]:
        """Return conditions' documents by fingerprint."""

    def config_documents(self, fingerprints: Collection[str]) -> Mapping[str, Mapping[str, Any]]:
        """Return configs' documents by fingerprint."""

    def box_documents(self, fingerprints: Collection[str]) -> Mapping[str, Mapping[str, Any]]:
        """Return boxes' facts by fingerprint."""


def documents_of(queries: Expands, rows: Sequence[WindowRow | Pool]) -> Documents:
    """Return the documents of the rows' conditions, configs and boxes."""
    from nightsweep.analysis.sides import Documents  # commands that ask for no documents load none of it

    conditions = queries.condition_documents({row.conditions for row in rows})
    return Documents(
        conditions=conditions,
        configs=queries.config_documents({row.config_fingerprint for row in rows}),
        boxes=queries.box_documents({str(document.get("box")) for document in conditions.values()}),
    )
