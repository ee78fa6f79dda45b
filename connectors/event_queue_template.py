"""CloudFormation template of an event queue, and its resources as pages list them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

STACK_FILE: Final = Path(__file__).parent / "event_queue_stack.yaml"
NAME_PARAMETER: Final = "QueueName"
URL_OUTPUT: Final = "QueueUrl"
_PURPOSES: Final[Mapping[str, str]] = {
    "Queue": "Receives the events, for Slipway only.",
    "DeadLetters": "Keeps events that could not be read for 14 days.",
    "QueuePolicy": "Allows only the rules below to send to the queue.",
}


@dataclass(frozen=True)
class TemplateResource:
    """Resource that a stack of the template has."""

    logical_id: str
    type: str
    purpose: str


class _Loader(yaml.SafeLoader):
    """Loader that reads the functions of CloudFormation as None."""


_Loader.add_multi_constructor("!", lambda loader, name, node: None)


@cache
def read_template() -> str:
    """Return the text of the template."""
    return STACK_FILE.read_text()


@cache
def list_template_resources() -> tuple[TemplateResource, ...]:
    """Return the resources of the template, the queue first."""
    # The loader creates plain values only.
    document: dict[str, Any] = yaml.load(read_template(), Loader=_Loader)  # noqa: S506
    resources = [
        TemplateResource(name, body["Type"], _PURPOSES.get(name) or body["Properties"]["Description"])
        for name, body in document["Resources"].items()
    ]
    return tuple(sorted(resources, key=lambda resource: resource.logical_id != "Queue"))
