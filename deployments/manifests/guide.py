"""What an editor may suggest in a manifest: the keys and values of AWS's model, and expressions."""

from collections.abc import Iterable
from typing import Any

from aws.schemas import input_schema
from deployments.manifests.kinds import KINDS

# What every stage can name (R179, DESIGN 5); variables come on top.
_EXPRESSIONS = (
    "primary.artifact.image",
    "primary.artifact.tag",
    "service.name",
    "service.identifier",
    "env.name",
    "env.identifier",
    "env.type",
    "infra.name",
    "infra.region",
    "infra.cluster",
    "pipeline.name",
    "pipeline.identifier",
    "pipeline.number",
)


def manifest_guide(kind: str, variables: Iterable[str] = ()) -> dict[str, Any]:
    """The guide for a kind of manifest, as the editor reads it; `variables` are those of its service."""
    known = KINDS[kind]
    left_out = frozenset(known.ignored) | frozenset(known.filled_in)
    named = [f"serviceVariables.{name}" for name in sorted(variables)]
    return {
        "schema": input_schema(known.service, known.operation, left_out),
        "expressions": [*_EXPRESSIONS, *named],
    }
