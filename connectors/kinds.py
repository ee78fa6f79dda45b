"""Reads the spec of a connector of any kind, and says what is wrong with one."""

from collections.abc import Mapping
from typing import Any

from connectors.aws_accounts import read_spec, spec_problems
from connectors.models import Connector
from connectors.sites import read_site, site_problems
from connectors.specs import ConnectorSpec


def read_any(kind: str, spec: Mapping[str, Any]) -> ConnectorSpec:
    """The spec of a connector of this kind, with unknown keys left out."""
    return read_spec(spec) if kind == Connector.Kind.AWS else read_site(spec)


def any_problems(kind: str, spec: Mapping[str, Any], *, has_secret: bool) -> list[dict[str, str]]:
    """Everything that is wrong with a spec of this kind, each as {"path", "message"}."""
    if kind == Connector.Kind.AWS:
        return spec_problems(spec, has_secret=has_secret)
    return site_problems(kind, spec, has_secret=has_secret)


def same_entrance(kind: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether a secret that opens what one spec names is the one for the other, too.

    A secret never goes along to another address: whoever changes that gives it anew.
    """
    if kind == Connector.Kind.AWS:
        return read_spec(one).access_key_id == read_spec(other).access_key_id
    here, there = read_site(one), read_site(other)
    return (here.url, here.authentication, here.username) == (there.url, there.authentication, there.username)
