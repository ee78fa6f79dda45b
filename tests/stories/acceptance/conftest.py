"""The demo project as a place for acceptance runs, with workers that dispatched a moment ago."""

import pytest
from django.utils import timezone

from deployments.engine import dispatch
from deployments.models import Pulse
from tests.deployments.conftest import _full_buckets, drive  # noqa: F401 - fixtures


@pytest.fixture(autouse=True)
def _workers(drive: object, live_broker: object) -> None:  # noqa: F811 - the fixture
    Pulse.objects.update_or_create(name=dispatch.DISPATCHER, defaults={"at": timezone.now()})
