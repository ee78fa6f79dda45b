"""What a delegate is created from: task specs, commands, IAM documents, and what keeps it away.

Nothing here knows Django or calls AWS: a `SpecRequest` goes in, a `Spec` comes out.
"""

from delegates.specs.finding import Finding
from delegates.specs.generator import write_spec
from delegates.specs.linter import lint
from delegates.specs.request import BadSpec, CaBundle, Network, Proxy, Secret, SpecRequest
from delegates.specs.spec import Command, Spec
from delegates.specs.troubleshooting import Cause, causes_of_disconnects, likely_causes

__all__ = [
    "BadSpec",
    "CaBundle",
    "Cause",
    "Command",
    "Finding",
    "Network",
    "Proxy",
    "Secret",
    "Spec",
    "SpecRequest",
    "causes_of_disconnects",
    "likely_causes",
    "lint",
    "write_spec",
]
