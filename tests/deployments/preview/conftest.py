"""The demo project on a sandbox whose clock the test moves, and a pipeline for each strategy."""

from tests.deployments.conftest import _full_buckets, drive
from tests.stories.blue_green.conftest import shop
from tests.stories.run_task.conftest import job

__all__ = ["_full_buckets", "drive", "job", "shop"]
