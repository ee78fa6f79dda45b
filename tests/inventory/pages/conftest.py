"""The demo project, deployed and synced."""

from tests.deployments.conftest import _full_buckets, drive  # noqa: F401 - fixtures
