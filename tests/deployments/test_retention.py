"""Retention of rows of deployments."""

from datetime import timedelta

import pytest
from django.utils import timezone

from deployments.models import PreviewRequest
from deployments.retention import DEPLOYMENT_RETENTION
from pipelines.models import Pipeline
from rbac.models import Scope, User
from web.retention import prune_rows

pytestmark = pytest.mark.django_db


def test_a_preview_is_kept_for_ten_minutes(project: Scope, admin: User) -> None:
    pipeline, now = (
        Pipeline.objects.create(scope=project, identifier="web", name="Web", yaml=""),
        timezone.now(),
    )
    kept_request, _old = (
        PreviewRequest.objects.create(
            pipeline=pipeline, version=1, requested_by=admin, requested_at=now - timedelta(minutes=age)
        )
        for age in (9, 11)
    )
    assert prune_rows(DEPLOYMENT_RETENTION, now) == 1
    assert list(PreviewRequest.objects.all()) == [kept_request]
