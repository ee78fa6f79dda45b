"""The regions that people choose from."""

from aws.regions import list_regions


def test_regions_have_names_that_people_know() -> None:
    titles = {region.name: region.title for region in list_regions()}
    assert titles["us-east-1"] == "US East (N. Virginia)"
    assert titles["eu-central-1"].startswith("Europe")
    assert len(titles) == len(list_regions())
