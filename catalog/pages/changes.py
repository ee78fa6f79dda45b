"""What two people did to the same thing, as lines that differ, before one overrides the other."""

from typing import Any

import yaml

from web.text_diff import Diff, diff


def compared(stored: dict[str, Any], entered: dict[str, Any]) -> Diff:
    """What saving the entered values would change in those that are stored."""
    return diff(_written(stored), _written(entered))


def _written(values: dict[str, Any]) -> str:
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, default_flow_style=False)
