"""A service that CloudFormation, CDK or Copilot made is adopted with a warning that names its stack."""

from collections.abc import Mapping

import pytest

from inventory.adoption.owners import describe_stack_owner

COPILOT = {"copilot-application": "shop", "copilot-environment": "prod", "copilot-service": "web"}


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        (
            {"aws:cloudformation:stack-name": "ShopStack"},
            "belongs to CloudFormation stack ShopStack and stays",
        ),
        (
            {"aws:cloudformation:stack-name": "shop-prod-web", **COPILOT},
            "CloudFormation stack shop-prod-web, which AWS Copilot made for shop/prod/web, and stays",
        ),
        (COPILOT, "belongs to a CloudFormation stack, which AWS Copilot made for shop/prod/web, and stays"),
    ],
)
def test_the_stack_is_named_with_what_to_do_about_it(tags: Mapping[str, str], words: str) -> None:
    sentence = describe_stack_owner(tags)
    assert words in sentence
    assert "DeletionPolicy: Retain" in sentence


def test_a_service_without_a_stack_has_no_warning() -> None:
    assert describe_stack_owner({"team": "shop", "aws:ecs:clusterName": "prod"}) == ""
