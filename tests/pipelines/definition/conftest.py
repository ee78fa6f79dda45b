"""Pipelines that are saved and run in front of the sandbox."""

from tests.deployments.conftest import _full_buckets, drive  # noqa: F401 - fixtures
from tests.deployments.engine.conftest import write  # noqa: F401 - fixture
