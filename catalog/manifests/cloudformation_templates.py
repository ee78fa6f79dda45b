"""CloudFormation templates: YAML or JSON that is checked and stored as text."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import yaml

from catalog.manifests.documents import BadDocument, Document
from guards.limits import SPEC_DEPTH, TEMPLATE_BYTES
from guards.text import find_size_problem, find_text_problem
from steps.expressions import has_expression

STACK_TEMPLATE = "CloudFormationTemplate"
_EVENT_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_START_EVENTS = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
_END_EVENTS = (yaml.MappingEndEvent, yaml.SequenceEndEvent)


@dataclass
class _TemplateOutline:
    """The sections of a template and the names below each."""

    sections: dict[str, list[str]] = field(default_factory=dict)
    _open: list[bool | None] = field(default_factory=list)
    """For each mapping that is open whether a key comes next; None for a list."""

    def add_event(self, event: yaml.Event) -> None:
        """Add the next parser event."""
        if isinstance(event, _END_EVENTS):
            self._open.pop()
            return
        if self._open and self._open[-1] is not None:
            if self._open[-1]:
                self._add_name(getattr(event, "value", ""))
            self._open[-1] = not self._open[-1]
        if isinstance(event, _START_EVENTS):
            self._open.append(True if isinstance(event, yaml.MappingStartEvent) else None)

    def _add_name(self, key: str) -> None:
        if len(self._open) == 1:
            self.sections.setdefault(key, [])
        elif len(self._open) == 2 and self.sections:
            self.sections[list(self.sections)[-1]].append(key)


def parse_template(text: str, name: str) -> Document:
    """Parse a template into a document with its text and the names in each section.

    Raises `BadDocument` for any other text. The time is linear in the text's size.
    """
    if fault := find_text_problem(text) or find_size_problem(text, TEMPLATE_BYTES):
        raise BadDocument(name, fault.line or 1, fault.column or 1, fault.message)
    outline = _TemplateOutline()
    try:
        for number, event in enumerate(_parse_events(name, text)):
            if number == 0 and not isinstance(event, yaml.MappingStartEvent):
                raise _build_error(name, event, "a template is a mapping of keys to values")
            outline.add_event(event)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        problem = getattr(error, "problem", None) or "not valid YAML or JSON"
        raise BadDocument(name, line, column, f"this cannot be parsed: {problem}") from error
    if not outline.sections.get("Resources"):
        raise BadDocument(name, 1, 1, "a template has Resources with at least one resource")
    return Document(name, outline.sections, text=text)


def _parse_events(name: str, text: str) -> Iterator[yaml.Event]:
    """Yield the events of one document; raise for constructs that a template may not contain."""
    depth = documents = 0
    for event in yaml.parse(text, Loader=_EVENT_LOADER):
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise _build_error(name, event, "a template is one document")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise _build_error(name, event, "CloudFormation knows no anchors and aliases; write it out")
        depth += isinstance(event, _START_EVENTS)
        depth -= isinstance(event, _END_EVENTS)
        if depth > SPEC_DEPTH:
            raise _build_error(name, event, f"it is deeper than {SPEC_DEPTH}")
        if isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
            yield event


def _build_error(name: str, event: yaml.Event, message: str) -> BadDocument:
    mark = event.start_mark
    return BadDocument(name, mark.line + 1 if mark else 1, mark.column + 1 if mark else 1, message)


def render_template(text: str, filled_in: Callable[[str], str]) -> str:
    """Return the template with its expressions resolved; without expressions it is unchanged.

    A value becomes text of the template and never part of its structure. Raises the errors of
    `filled_in`.
    """
    if not has_expression(text):
        return text
    events = (_render_event(event, filled_in) for event in yaml.parse(text, Loader=_EVENT_LOADER))
    return str(yaml.emit(events, width=10_000, allow_unicode=True))


def _render_event(event: yaml.Event, filled_in: Callable[[str], str]) -> yaml.Event:
    if not isinstance(event, yaml.ScalarEvent) or not has_expression(event.value):
        return event
    is_tagged = event.tag not in (None, "!")
    implicit = (False, False) if is_tagged else (False, True)
    tag = event.tag if is_tagged else None
    return yaml.ScalarEvent(event.anchor, tag, implicit, filled_in(event.value), style='"')
