"""Objects of S3 are fetched whole and all of them, or not at all."""

import pytest

from aws.apis.s3 import fetch_objects
from aws.caller import BotoCaller
from aws.errors import Invalid, Unanswered
from tests.aws.conftest import Endpoint

LISTED = """<ListBucketResult><IsTruncated>{more}</IsTruncated>
<Contents><Key>app/</Key></Contents><Contents><Key>app/a.yaml</Key></Contents></ListBucketResult>"""
MISSING = "<Error><Code>NoSuchKey</Code></Error>"


def test_an_object_whose_answer_ends_early_is_not_taken_for_a_whole_one(
    endpoint: Endpoint, caller: BotoCaller
) -> None:
    endpoint.answer_in_part("desiredCount: 1", length=400)
    with pytest.raises(Unanswered):
        fetch_objects(caller, "bucket", ["service.yaml"])


def test_a_folder_with_more_objects_than_are_listed_is_refused(
    endpoint: Endpoint, caller: BotoCaller
) -> None:
    endpoint.answer(404, MISSING)
    endpoint.answer(200, LISTED.format(more="true"))
    endpoint.answer(200, "desiredCount: 1")
    with pytest.raises(Invalid):
        fetch_objects(caller, "bucket", ["app"])


def test_the_mark_of_a_folder_is_no_object_of_it(endpoint: Endpoint, caller: BotoCaller) -> None:
    endpoint.answer(404, MISSING)
    endpoint.answer(200, LISTED.format(more="false"))
    endpoint.answer(200, "desiredCount: 1")
    assert fetch_objects(caller, "bucket", ["app"]).files == {"app/a.yaml": "desiredCount: 1"}


def test_an_object_in_another_encoding_is_refused_with_its_key(
    endpoint: Endpoint, caller: BotoCaller
) -> None:
    endpoint.answer(200, "name: Größe".encode("latin-1"))
    with pytest.raises(Invalid, match=r"web\.yaml is not UTF-8: byte 9"):
        fetch_objects(caller, "bucket", ["web.yaml"])
