"""What users run is tested as they run it: with optimized programs."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def as_users_run(optimized: None) -> None:
    """Use `optimized` in every file of this folder."""
