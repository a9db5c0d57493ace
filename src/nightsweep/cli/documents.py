"""What fingerprints of stored windows stand for."""

from __future__ import annotations

from collections.abc import Sequence

from nightsweep.analysis.sides import Documents
from nightsweep.analysis.values import WindowRow
from nightsweep.cli.reading import Queries


def documents_of(queries: Queries, rows: Sequence[WindowRow]) -> Documents:
    """Return the documents of the rows' conditions, configs and boxes."""
    conditions = queries.condition_documents({row.conditions for row in rows})
    return Documents(
        conditions=conditions,
        configs=queries.config_documents({row.config_fingerprint for row in rows}),
        boxes=queries.box_documents({str(document.get("box")) for document in conditions.values()}),
    )
