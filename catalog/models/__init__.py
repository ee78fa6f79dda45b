"""Tables of services, environments, infrastructures and overrides."""

from catalog.models.environments import Environment, Infrastructure, ServiceOverride
from catalog.models.services import Artifact, Manifest, Service

__all__ = [
    "Artifact",
    "Environment",
    "Infrastructure",
    "Manifest",
    "Service",
    "ServiceOverride",
]
