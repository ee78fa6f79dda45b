"""Retention periods of rows of deployments."""

from datetime import timedelta

from django.db.models import Exists, OuterRef

from deployments.models import PreviewRequest, StoredPlan, StoredText, StoredTextUse
from web.retention import RetentionRule

PLAN_RETENTION = RetentionRule(
    StoredPlan.objects.exclude(content=""), "planned_at", timedelta(days=7), clear={"content": ""}
)
# A new execution may use a text again while its row is written.
TEXT_RETENTION = RetentionRule(
    StoredText.objects.filter(~Exists(StoredTextUse.objects.filter(text=OuterRef("pk")))),
    "used_at",
    timedelta(days=1),
)
DEPLOYMENT_RETENTION = (
    PLAN_RETENTION,
    TEXT_RETENTION,
    RetentionRule(PreviewRequest.objects.all(), "requested_at", timedelta(minutes=10)),
)
