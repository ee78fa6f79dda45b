"""The demo project as a place for acceptance runs."""

from tests.deployments.conftest import _full_buckets, drive  # noqa: F401 - fixtures
