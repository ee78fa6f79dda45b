"""What a resource handler is: it creates, updates and deletes resources of one type."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

ServiceCall = Callable[[str, str, Mapping[str, Any]], dict[str, Any]]
ResourceProperties = Mapping[str, Any]
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


@dataclass(frozen=True)
class PhysicalResource:
    """Created resource with the value of Ref and its attributes."""

    physical_id: str
    attributes: Mapping[str, str] = field(default_factory=dict)


class ResourceHandler:
    """Makes one type of resource. Each verb raises `ResourceFailed`."""

    replacing: frozenset[str] = frozenset()
    """The properties that cannot be changed: another value means another resource."""
    name_property = ""

    def create(self, call: ServiceCall, name: str, properties: ResourceProperties) -> PhysicalResource:
        """Create the resource; `name` is used if the template has none."""
        raise NotImplementedError

    def update(
        self, call: ServiceCall, made: PhysicalResource, properties: ResourceProperties
    ) -> PhysicalResource:
        """Update the resource to these properties."""
        return made

    def is_stable(self, call: ServiceCall, made: PhysicalResource) -> bool:
        """Return whether what was created or updated is ready."""
        return True

    def delete(self, call: ServiceCall, made: PhysicalResource) -> None:
        """Delete the resource."""


def generate_name(stack: str, logical_id: str) -> str:
    """Return the generated name of a resource without a name in the template."""
    return f"{stack}-{logical_id}-{''.join(secrets.choice(_LETTERS) for _ in range(12))}"
