"""The one sweep that several modules look at: a boot of a real engine takes half a minute, and is not done twice for one fact."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .leftovers import Belongings, owned_containers
from .product import NAME, Swept, models, stop_database, sweep

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def swept() -> Iterator[Swept]:
    """Run the sweep once; `test_real_vllm` looks at it, and `test_real_boots` at its boots."""
    assert owned_containers() == [], "engines of an earlier run are still here"
    before = Belongings.now()
    home = Path(tempfile.mkdtemp(prefix="nslive."))
    try:
        file = home / "real_sweep.yaml"
        file.write_text(
            (HERE / "real_sweep.yaml").read_text().replace("@MODELS@", str(models())).replace("@NAME@", NAME)
        )
        code, output, progress = sweep(home, file)
        print(output)
        yield Swept(home=home, before=before, code=code, output=output, progress=progress)
    finally:
        stop_database(home)
        shutil.rmtree(home)
