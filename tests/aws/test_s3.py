"""Objects of S3 are fetched whole and all of them, or not at all."""

import pytest

from aws.apis.s3 import fetch_objects
from aws.caller import BotoCaller
from aws.errors import Unanswered
from tests.aws.conftest import Endpoint


def test_an_object_whose_answer_ends_early_is_not_taken_for_a_whole_one(
    endpoint: Endpoint, caller: BotoCaller
) -> None:
    endpoint.answer_in_part("desiredCount: 1", length=400)
    with pytest.raises(Unanswered):
        fetch_objects(caller, "bucket", ["service.yaml"])
