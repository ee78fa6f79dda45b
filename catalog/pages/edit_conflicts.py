"""Differences between entered and stored values, shown after a concurrent edit."""

from typing import Any

import yaml

from web.text_diffs import TextDiff, compare_texts


def diff_values(stored: dict[str, Any], entered: dict[str, Any]) -> TextDiff:
    """What saving the entered values would change in those that are stored."""
    return compare_texts(_render_yaml(stored), _render_yaml(entered))


def _render_yaml(values: dict[str, Any]) -> str:
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, default_flow_style=False)
