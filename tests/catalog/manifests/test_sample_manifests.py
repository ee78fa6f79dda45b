"""The texts that new manifests begin with."""

import pytest

from catalog.forms.sample_manifests import SAMPLE_MANIFESTS
from catalog.manifests.checks import check_manifest
from catalog.manifests.documents import parse_document
from catalog.manifests.kinds import MANIFEST_KINDS
from catalog.models import Manifest


def test_each_kind_of_a_service_has_one() -> None:
    assert set(SAMPLE_MANIFESTS) == set(Manifest.Kind.values)


@pytest.mark.parametrize("kind", sorted(SAMPLE_MANIFESTS))
def test_a_starter_can_be_sent_to_aws_as_it_is(kind: str) -> None:
    manifest = check_manifest(kind, parse_document(SAMPLE_MANIFESTS[kind], "starter"))
    assert (manifest.problems, manifest.warnings) == ((), ())
    assert kind in MANIFEST_KINDS
