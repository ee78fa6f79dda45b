"""What a listener's rule matches, in words."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

EVERYTHING = "every request that no other rule takes"
_FIELDS = {
    "path-pattern": ("path is", "PathPatternConfig"),
    "host-header": ("host is", "HostHeaderConfig"),
    "http-request-method": ("method is", "HttpRequestMethodConfig"),
    "source-ip": ("comes from", "SourceIpConfig"),
}


def in_words(conditions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each condition of a rule; a request matches if all of them hold. A rule without any takes the rest."""
    return [_condition(one) for one in conditions] or [EVERYTHING]


def _condition(condition: Mapping[str, Any]) -> str:
    field = str(condition.get("Field", ""))
    if field in _FIELDS:
        words, config = _FIELDS[field]
        return f"{words} {_values(condition, config)}"
    if field == "http-header":
        header = condition.get("HttpHeaderConfig") or {}
        return f"header {header.get('HttpHeaderName', '')} is {_or(header.get('Values') or ())}"
    if field == "query-string":
        pairs = (condition.get("QueryStringConfig") or {}).get("Values") or ()
        return f"query has {_or(_pair(one) for one in pairs)}"
    return f"{field or 'a condition'} that is not known here"


def _values(condition: Mapping[str, Any], config: str) -> str:
    settings = condition.get(config) or {}
    patterns = [f"matches {one}" for one in settings.get("RegexValues") or ()]
    return _or([*(settings.get("Values") or condition.get("Values") or ()), *patterns])


def _pair(pair: Mapping[str, Any]) -> str:
    return f"{pair['Key']}={pair.get('Value', '')}" if pair.get("Key") else str(pair.get("Value", ""))


def _or(values: Iterable[Any]) -> str:
    return " or ".join(map(str, values)) or "nothing"
