"""How values become YAML that is written anew: lists further in than their key, long texts as blocks."""

import json
from typing import Any

import yaml

from guards.fault import Refused
from guards.yaml import read_yaml

_NO_WIDTH = 10**9


class Dumper(yaml.SafeDumper):
    """Writes lists further in than the key that holds them, and each text where it is used."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent lists too."""
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:
        """Write everything out: a pipeline may hold no references."""
        return True


def scalar_text(value: Any, style: str | None = None) -> str:
    """A scalar in one line, in the quotes of `style` where it is a text."""
    if isinstance(value, str) and style == "'" and _fits_in_one_line(value):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, str) and style == '"':
        return _quoted(value)
    if isinstance(value, list | dict):
        return "[]" if isinstance(value, list) else "{}"
    if value is None:
        return "null"
    dumped = yaml.dump(value, Dumper=Dumper, width=_NO_WIDTH, allow_unicode=True)
    text = str(dumped).removesuffix("...\n").strip("\n")
    return text if _means(text, value) else _quoted(value)


def shown_text(value: Any) -> str:
    """A value as a form shows it: YAML of its own, ended by no empty line."""
    dumped = yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False)
    return str(dumped).removesuffix("...\n").strip("\n")


def block_lines(text: str, column: int) -> tuple[str, list[str]] | None:
    """A text of several lines as a block: what stands behind the key, and the lines; None if it cannot."""
    lines = text.removesuffix("\n").split("\n")
    if len(lines) < 2 or not lines[0].strip() or lines[0].startswith((" ", "\t")) or not lines[-1].strip():
        return None
    head = "|" if text.endswith("\n") else "|-"
    body = [" " * column + line if line else "" for line in lines]
    meant = _parsed(f"key: {head}\n" + "\n".join(f"  {line}" if line else "" for line in lines) + "\n")
    return (head, body) if meant == {"key": text} else None


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _fits_in_one_line(text: str) -> bool:
    return text.isprintable()


def _means(text: str, value: Any) -> bool:
    found = _parsed(f"key: {text}\n")
    return isinstance(found, dict) and found["key"] == value and type(found["key"]) is type(value)


def _parsed(text: str) -> Any:
    try:
        return read_yaml(text).value
    except Refused:
        return None
