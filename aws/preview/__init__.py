"""A way to AWS that lets reads through and writes down the writes instead of sending them."""

from aws.preview.caller import PlannedCall, PreviewCaller
from aws.preview.live import Budget, OnlyPlanned, PreviewStopped

__all__ = ["Budget", "OnlyPlanned", "PlannedCall", "PreviewCaller", "PreviewStopped"]
