"""The demo project on a sandbox whose clock the test moves."""

from tests.deployments.conftest import _full_buckets, drive  # noqa: F401 - fixtures
