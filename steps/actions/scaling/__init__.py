"""The actions that keep auto scaling and a deployment from fighting each other (P07, N06)."""

from steps.actions.scaling.attach import AttachAutoScaling
from steps.actions.scaling.suspend import DetachAutoScaling, ResumeAutoScaling, SuspendAutoScaling

__all__ = [
    "AttachAutoScaling",
    "DetachAutoScaling",
    "ResumeAutoScaling",
    "SuspendAutoScaling",
]
