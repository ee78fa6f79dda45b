"""An execution to write a log for."""

from datetime import UTC, datetime

import pytest
from django.utils import timezone

from deployments.log import LineOrigin, NewLogLine
from deployments.models import Execution
from pipelines.models import Pipeline
from rbac.models import Scope, User

AT = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)


def build_lines(
    *texts: str, level: str = "info", step: str = "deploy", origin: LineOrigin | None = None
) -> list[NewLogLine]:
    """Build lines that are not stored yet."""
    return [NewLogLine(AT, None, step, "Deploy", level, text, origin) for text in texts]


@pytest.fixture
def execution(project: Scope, admin: User) -> Execution:
    """An execution that nothing moves on."""
    pipeline = Pipeline.objects.create(scope=project, identifier="logged", name="Logged", yaml="")
    return Execution.objects.create(
        pipeline=pipeline, scope=project, number=1, started_by=admin, due_at=timezone.now(), status="RUNNING"
    )
