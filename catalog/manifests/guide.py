"""What an editor may suggest in a manifest: the keys and values of AWS's model, and expressions."""

from collections.abc import Iterable
from typing import Any

from aws.schemas import input_schema
from catalog.manifests.kinds import KINDS
from steps.expression_names import DIGEST, FIXED, IN_MANIFEST


def manifest_guide(kind: str, variables: Iterable[str] = ()) -> dict[str, Any]:
    """The guide for a kind of manifest, as the editor reads it; `variables` are those of its service."""
    known = KINDS[kind]
    left_out = frozenset(known.ignored) | frozenset(known.filled_in)
    words = {**FIXED, **DIGEST, **IN_MANIFEST.get(kind, {})}
    named = [{"value": path, "detail": about} for path, about in sorted(words.items())]
    own = [{"value": f"serviceVariables.{name}", "detail": "A variable."} for name in sorted(variables)]
    return {
        "schema": input_schema(known.service, known.operation, left_out),
        "expressions": [*named, *own],
    }
