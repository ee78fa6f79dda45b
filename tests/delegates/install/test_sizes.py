"""Sizes of delegates are data that agrees with itself and with what Fargate takes."""

import pytest

from delegates.install import write_spec
from delegates.install.wizard import OWN_USE_NOTE, SIZES, DelegateSize
from tests.delegates.install.spec_variants import build_request

# MiB for each number of CPU units (Amazon ECS developer guide, task definition parameters for Fargate).
FARGATE_MEMORY = {512: range(1024, 4097), 1024: range(2048, 8193), 2048: range(4096, 16_385)}
TASKS_PER_AGENT = 10


def test_the_sizes_are_those_of_the_documents() -> None:
    sizes = [(size.name, size.memory_mib, size.cpu, size.parallel_tasks) for size in SIZES.values()]
    assert sizes == [
        ("Laptop", 2048, 512, 10),
        ("Small", 4096, 1024, 20),
        ("Medium", 8192, 2048, 40),
        ("Large", 16_384, 4096, 80),
    ]


@pytest.mark.parametrize("size", SIZES.values(), ids=str)
def test_instances_share_a_size_in_a_way_that_fargate_takes(size: DelegateSize) -> None:
    assert size.instance_memory_mib in FARGATE_MEMORY[size.instance_cpu]
    assert size.instances * size.instance_memory_mib == size.memory_mib
    assert size.instances * TASKS_PER_AGENT == size.parallel_tasks


def test_a_size_says_what_it_is_in_one_sentence() -> None:
    assert SIZES["small"].sentence == ("2 instances, 4 GB and 1 vCPU together, 20 tasks at the same time")


def test_the_page_and_the_files_say_that_a_host_needs_more() -> None:
    assert "for the delegate only" in OWN_USE_NOTE
    assert any("for the delegate only" in text for text in write_spec(build_request("v3", "EC2")).warnings)
