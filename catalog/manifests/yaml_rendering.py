"""Rendering of values as YAML: indented lists, block texts, quoted scalars."""

import json
from typing import Any

import yaml

from guards.input_problems import InputRejected
from guards.yaml_parser import parse_yaml

_UNLIMITED_WIDTH = 10**9


class IndentedDumper(yaml.SafeDumper):
    """YAML dumper that indents lists and writes no anchors."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent lists too."""
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:
        """Return True: pipelines may not contain references."""
        return True


def render_scalar(value: Any, style: str | None = None) -> str:
    """Render a scalar on one line; text in the quotes of `style`."""
    if isinstance(value, str) and style == "'" and _is_printable(value):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, str) and style == '"':
        return _quote(value)
    if isinstance(value, list | dict):
        return "[]" if isinstance(value, list) else "{}"
    if value is None:
        return "null"
    dumped = yaml.dump(value, Dumper=IndentedDumper, width=_UNLIMITED_WIDTH, allow_unicode=True)
    text = str(dumped).removesuffix("...\n").strip("\n")
    return text if _is_parsed_as(text, value) else _quote(value)


def render_value(value: Any) -> str:
    """Render a value for a form: YAML without a trailing empty line."""
    dumped = yaml.dump(
        value, Dumper=IndentedDumper, sort_keys=False, allow_unicode=True, default_flow_style=False
    )
    return str(dumped).removesuffix("...\n").strip("\n")


def render_block(text: str, column: int) -> tuple[str, list[str]] | None:
    """Render multi-line text as a block scalar: its header and lines; None if that is impossible."""
    lines = text.removesuffix("\n").split("\n")
    if len(lines) < 2 or not lines[0].strip() or lines[0].startswith((" ", "\t")) or not lines[-1].strip():
        return None
    head = "|" if text.endswith("\n") else "|-"
    body = [" " * column + line if line else "" for line in lines]
    meant = _parse_or_none(f"key: {head}\n" + "\n".join(f"  {line}" if line else "" for line in lines) + "\n")
    return (head, body) if meant == {"key": text} else None


def _quote(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _is_printable(text: str) -> bool:
    return text.isprintable()


def _is_parsed_as(text: str, value: Any) -> bool:
    found = _parse_or_none(f"key: {text}\n")
    return isinstance(found, dict) and found["key"] == value and type(found["key"]) is type(value)


def _parse_or_none(text: str) -> Any:
    try:
        return parse_yaml(text).value
    except InputRejected:
        return None
