"""Caller for previews: sends reads, records writes, and simulates their effect on later reads."""

from aws.preview.caller import PlannedCall, PreviewCaller
from aws.preview.live_reads import ExistsOnlyInPreview, PreviewLimitReached, ReadBudget

__all__ = [
    "ExistsOnlyInPreview",
    "PlannedCall",
    "PreviewCaller",
    "PreviewLimitReached",
    "ReadBudget",
]
