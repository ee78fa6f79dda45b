"""The demo project, whose deployments others disturb."""

from tests.deployments.conftest import _full_buckets, drive  # noqa: F401 - fixtures
