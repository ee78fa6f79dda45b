"""The demo project, whose deployments others disturb."""

from tests.deployments.conftest import _full_buckets, drive  # noqa: F401 - fixtures
from tests.deployments.engine.conftest import write  # noqa: F401 - fixture
from tests.stories.blue_green.conftest import shop  # noqa: F401 - fixture
