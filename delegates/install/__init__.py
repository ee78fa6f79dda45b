"""Installation of delegates: specs, commands, IAM documents, linter, troubleshooting."""

from delegates.install.generator import write_spec
from delegates.install.linter import SpecFinding, lint_spec
from delegates.install.specs import (
    CaBundle,
    DelegateSpecFiles,
    InvalidSpec,
    ShellCommand,
    SpecNetwork,
    SpecProxy,
    SpecRequest,
    TokenSecret,
)
from delegates.install.troubleshooting import ConnectionCause, list_disconnect_causes, list_likely_causes

__all__ = [
    "CaBundle",
    "ConnectionCause",
    "DelegateSpecFiles",
    "InvalidSpec",
    "ShellCommand",
    "SpecFinding",
    "SpecNetwork",
    "SpecProxy",
    "SpecRequest",
    "TokenSecret",
    "lint_spec",
    "list_disconnect_causes",
    "list_likely_causes",
    "write_spec",
]
