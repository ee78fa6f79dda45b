"""Base of connector specs: text fields, and the route of calls through delegates (R051)."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Self

from guards.limits import SELECTORS, TAG_CHARACTERS

# Other characters without a glyph are refused too, but no pattern has a word for them.
TAG_PATTERN = r"^[^\s,<>\"'\x00-\x1f\x7f-\x9f]+$"
TAG_RULE = f"use 1 to {TAG_CHARACTERS:d} printable characters without spaces, commas, quotes and < >."
_TAG = re.compile(TAG_PATTERN)


def find_tag_problems(tags: Any) -> Iterator[str]:
    """Return the problems of a list of tags; None is an empty list."""
    if tags is None:
        return
    if not isinstance(tags, list | tuple):
        yield "This must be a list of tags."
    elif len(tags) > SELECTORS:
        yield f"Use {SELECTORS:d} tags at most."
    else:
        yield from (_INVALID_TAG_MESSAGE.format(str(tag)[:40]) for tag in tags if not _is_tag(tag))


def parse_tag_list(text: str) -> list[str]:
    """Return the tags in a text that has commas or blanks between them, each once."""
    return list(dict.fromkeys(tag for tag in re.split(r"[\s,]+", text) if tag))


_INVALID_TAG_MESSAGE = f"“{{}}” is not a tag: {TAG_RULE}"


def _is_tag(tag: Any) -> bool:
    return isinstance(tag, str) and len(tag) <= TAG_CHARACTERS and bool(_TAG.match(tag)) and tag.isprintable()


SLIPWAY, DELEGATE = "Slipway", "Delegate"
"""Whether Slipway or a delegate makes the calls."""
_SELECTORS_FIELD: Final = "delegate_selectors"


@dataclass(frozen=True)
class ConnectorSpec(ABC):
    """Spec of a connector; all fields except the tags are texts.

    A delegate must have all tags in `delegate_selectors` (R050); without tags, any delegate is suitable.
    """

    connect_through: str = SLIPWAY
    delegate_selectors: tuple[str, ...] = ()

    @property
    @abstractmethod
    def needs_secret(self) -> bool:
        """Return whether a password, a token or a key takes part."""

    @property
    def is_remote(self) -> bool:
        """Return whether a delegate makes the calls."""
        return self.connect_through == DELEGATE

    @classmethod
    def get_field_names(cls) -> list[str]:
        """Return the displayed names of the fields."""
        return [field.name for field in fields(cls)]

    @classmethod
    def from_json(cls, spec: Mapping[str, Any]) -> Self:
        """Return the spec from JSON, without unknown keys."""
        texts = set(cls.get_field_names()) - {_SELECTORS_FIELD}
        texts_by_name: dict[str, Any] = {
            key: str(text).strip() for key, text in spec.items() if key in texts and text
        }
        tags = dict.fromkeys(str(tag).strip() for tag in spec.get(_SELECTORS_FIELD) or ())
        return cls(**texts_by_name, delegate_selectors=tuple(tag for tag in tags if tag))

    def to_json(self) -> dict[str, Any]:
        document = asdict(self) | {_SELECTORS_FIELD: list(self.delegate_selectors)}
        if not self.is_remote:
            del document["connect_through"]
        return {key: value for key, value in document.items() if value}

    @classmethod
    def find_shape_problems(cls, spec: Mapping[str, Any]) -> list[dict[str, str]]:
        """Return unknown keys and wrong types, each as {"path", "message"}; the other fields are used."""
        names = cls.get_field_names()
        problems = [
            build_spec_problem(key, f"Unknown value; use one of {', '.join(names)}.")
            for key in spec
            if key not in names
        ]
        problems += [
            build_spec_problem(key, "This must be text.")
            for key, value in spec.items()
            if key in names and key != _SELECTORS_FIELD and not isinstance(value, str | None)
        ]
        return [
            *problems,
            *(
                build_spec_problem(_SELECTORS_FIELD, text)
                for text in find_tag_problems(spec.get(_SELECTORS_FIELD))
            ),
        ]

    def find_route_problems(self) -> Iterator[dict[str, str]]:
        """Return the problems of the delegate selection."""
        if self.connect_through not in (SLIPWAY, DELEGATE):
            yield build_spec_problem("connect_through", "Use Slipway or Delegate.")
        if self.delegate_selectors and not self.is_remote:
            yield build_spec_problem(
                _SELECTORS_FIELD, "Delegate selectors require connect_through: Delegate."
            )


def build_spec_problem(path: str, message: str) -> dict[str, str]:
    """Return a problem of a spec."""
    return {"path": path, "message": message}
