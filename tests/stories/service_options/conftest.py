"""The demo project, whose manifests a test changes."""

from tests.deployments.conftest import _full_buckets, drive  # noqa: F401 - fixtures
