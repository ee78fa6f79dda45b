"""Common checks of the rules: names, ARNs, tags, placeholders, sizes and duplicates."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aws.validation.problems import ParameterPath, ShapeProblem, format_path, quote_value
from aws.validation.shape_checks import is_expression

NAME_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,255}\Z")
# As samples write them: the whole of <Role ARN>, or PUT_YOUR_ACCOUNT_ID anywhere.
_PLACEHOLDER = re.compile(
    r"\A<(?!\+)[A-Za-z][^<>]{0,60}>\Z|(?<![A-Za-z0-9_])(?:PUT_)?YOUR_[A-Z][A-Z0-9_]{0,60}"
)
# Values for the application may have any format.
_APPLICATION_KEYS = ("command", "entryPoint", "environment", "dockerLabels", "options")
_ARN = re.compile(r"arn:aws[a-z-]*:[a-z0-9-]+:[a-z0-9-]*:(\d{12})?:\S+\Z")
_UNITS = re.compile(r"(\d+(?:\.\d+)?|\.\d+) ?(vcpu|gb|mb|mib|gib)\Z", re.IGNORECASE)
_UNIT_FACTORS = {"vcpu": 1024, "gb": 1024, "gib": 1024, "mb": 1, "mib": 1}
# Python refuses to convert thousands of digits, and no float holds 400 of them.
_LONGEST_SIZE = 18

RuleDocument = Mapping[str, Any]


def parse_units(value: object) -> int | None:
    """Return the CPU units or MiB of "256", "1 vCPU" or "2GB"; None if still unknown or no size."""
    text = str(value).strip()
    if len(text) > _LONGEST_SIZE:
        return None
    if text.isascii() and text.isdigit():
        return int(text)
    match = _UNITS.match(text)
    return round(float(match[1]) * _UNIT_FACTORS[match[2].lower()]) if match else None


def check_name(path: ParameterPath, value: object, kind: str) -> Iterator[ShapeProblem]:
    """Yield a problem for a name with characters that ECS refuses."""
    if isinstance(value, str) and is_literal(value) and not NAME_PATTERN.match(value):
        yield ShapeProblem(
            path, f"{quote_value(value)} is not a {kind}: use up to 255 letters, digits, _ and -"
        )


def check_duplicates(
    path: ParameterPath, items: Iterable[RuleDocument], key: str, kind: str, *, key_in_path: bool = True
) -> Iterator[ShapeProblem]:
    """Yield a problem for each duplicate name in a list."""
    positions: dict[Any, int] = {}
    for number, item in enumerate(items):
        value = item.get(key)
        if value is None or value == "":
            continue
        if value in positions:
            item_path = (*path, number, key) if key_in_path else (*path, number)
            first_path = format_path((*path, positions[value]))
            yield ShapeProblem(item_path, f"the {kind} {quote_value(value)} is already used at {first_path}")
        positions.setdefault(value, number)


def check_placeholders(
    value: Any, path: ParameterPath = (), *, is_free: bool = False
) -> Iterator[ShapeProblem]:
    """Yield a problem for each remaining sample placeholder, such as <Role ARN> (R174).

    In texts for the application a placeholder may be intended, so it is a warning there.
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from check_placeholders(inner, (*path, key), is_free=is_free or key in _APPLICATION_KEYS)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from check_placeholders(inner, (*path, number), is_free=is_free)
    elif isinstance(value, str) and (match := _PLACEHOLDER.search(value)):
        message = "looks like the placeholder" if is_free else "still holds the placeholder"
        yield ShapeProblem(path, f"{message} {match[0]}; enter the real value", is_warning=is_free)


def is_placeholder(value: object) -> bool:
    return isinstance(value, str) and bool(_PLACEHOLDER.search(value))


def is_literal(value: object) -> bool:
    """Return whether a text is neither an expression nor a placeholder."""
    return isinstance(value, str) and not is_expression(value) and not is_placeholder(value)


def check_arn(path: ParameterPath, value: object, kind: str) -> Iterator[ShapeProblem]:
    """Yield a problem if a required ARN has another format."""
    if isinstance(value, str) and is_literal(value) and not _ARN.match(value):
        yield ShapeProblem(path, f"{quote_value(value)} is not the ARN of {kind}")


def check_tags(tags: object, path: ParameterPath = ("tags",)) -> Iterator[ShapeProblem]:
    items = tags if isinstance(tags, list) else []
    yield from check_duplicates(path, items, "key", "tag")
    for number, tag in enumerate(items):
        for part in ("key", "value"):
            if str(tag.get(part, "")).lower().startswith("aws:"):
                yield ShapeProblem((*path, number, part), "may not begin with aws:, which is reserved by AWS")
