"""The keys of a document of policy rules, for comparison with the example."""

from typing import Any

from policies.subjects import OPEN_NAMES


def collect_keys(value: Any, path: str = "") -> set[str]:
    """Return the paths of all keys; items of a list share one path."""
    if isinstance(value, dict):
        keys: set[str] = set()
        for key, child in value.items():
            inner = set() if key in OPEN_NAMES else collect_keys(child, f"{path}.{key}")
            keys |= {f"{path}.{key}", *inner}
        return keys
    if isinstance(value, list):
        return {key for child in value for key in collect_keys(child, path)}
    return set()
