"""The texts that new manifests begin with."""

import pytest

from catalog.manifests.check import check_manifest
from catalog.manifests.document import parse
from catalog.manifests.kinds import KINDS
from catalog.manifests.starters import STARTERS
from catalog.models import Manifest


def test_each_kind_of_a_service_has_one() -> None:
    assert set(STARTERS) == set(Manifest.Kind.values)


@pytest.mark.parametrize("kind", sorted(STARTERS))
def test_a_starter_can_be_sent_to_aws_as_it_is(kind: str) -> None:
    checked = check_manifest(kind, parse(STARTERS[kind], "starter"))
    assert (checked.problems, checked.warnings) == ((), ())
    assert kind in KINDS
