"""The demo project, deployed, looked at, and compared."""

from tests.deployments.conftest import _full_buckets, drive

__all__ = ["_full_buckets", "drive"]
