"""The texts that new manifests begin with."""

import pytest

from deployments.manifests.check import check_manifest
from deployments.manifests.document import parse
from deployments.manifests.kinds import KINDS
from deployments.models import Manifest
from deployments.starters import STARTERS


def test_each_kind_of_a_service_has_one() -> None:
    assert set(STARTERS) == set(Manifest.Kind.values)


@pytest.mark.parametrize("kind", sorted(STARTERS))
def test_a_starter_can_be_sent_to_aws_as_it_is(kind: str) -> None:
    checked = check_manifest(kind, parse(STARTERS[kind], "starter"))
    assert (checked.problems, checked.warnings) == ((), ())
    assert kind in KINDS
