"""The regions that people choose from."""

import pytest

from aws.regions import get_service_endpoint, list_regions


def test_regions_have_names_that_people_know() -> None:
    titles = {region.name: region.title for region in list_regions()}
    assert titles["us-east-1"] == "US East (N. Virginia)"
    assert titles["eu-central-1"].startswith("Europe")
    assert len(titles) == len(list_regions())


@pytest.mark.parametrize(
    ("service", "region", "endpoint"),
    [
        ("ecs", "eu-central-1", "https://ecs.eu-central-1.amazonaws.com"),
        ("elbv2", "eu-central-1", "https://elasticloadbalancing.eu-central-1.amazonaws.com"),
        ("cloudwatch", "eu-central-1", "https://monitoring.eu-central-1.amazonaws.com"),
        ("ecr", "us-east-1", "https://api.ecr.us-east-1.amazonaws.com"),
        ("ecs", "cn-north-1", "https://ecs.cn-north-1.amazonaws.com.cn"),
    ],
)
def test_an_endpoint_is_the_host_that_boto3_calls(service: str, region: str, endpoint: str):
    assert get_service_endpoint(service, region) == endpoint


@pytest.mark.parametrize("region", ["", "<+provisioner.region>", "us east"])
def test_a_region_that_is_not_known_yet_fails_nothing(region: str):
    assert get_service_endpoint("ecs", region) == f"https://ecs.{region}.amazonaws.com"
