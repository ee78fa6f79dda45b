"""Parser and validation of specs by connector kind."""

from collections.abc import Mapping
from typing import Any

from connectors.models import Connector
from connectors.specs.aws import find_aws_spec_problems, parse_aws_spec
from connectors.specs.base import ConnectorSpec
from connectors.specs.sites import find_site_spec_problems, parse_site_spec


def parse_connector_spec(kind: str, spec: Mapping[str, Any]) -> ConnectorSpec:
    """Return the spec of a connector of this kind, with unknown keys left out."""
    return parse_aws_spec(spec) if kind == Connector.Kind.AWS else parse_site_spec(spec)


def find_connector_spec_problems(
    kind: str, spec: Mapping[str, Any], *, has_secret: bool
) -> list[dict[str, str]]:
    """Everything that is wrong with a spec of this kind, each as {"path", "message"}."""
    if kind == Connector.Kind.AWS:
        return find_aws_spec_problems(spec, has_secret=has_secret)
    return find_site_spec_problems(kind, spec, has_secret=has_secret)


def has_same_login(kind: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether a secret that opens what one spec names is the one for the other, too.

    A secret never goes along to another address: whoever changes that gives it anew.
    """
    if kind == Connector.Kind.AWS:
        return parse_aws_spec(one).access_key_id == parse_aws_spec(other).access_key_id
    here, there = parse_site_spec(one), parse_site_spec(other)
    return (here.url, here.authentication, here.username) == (there.url, there.authentication, there.username)
