"""The model of the capacity that an installation needs, and the page that shows it."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.capacity import SIZES, Capacity, Costs, Size, format_costs, format_sizes

PAGE = Path(__file__).resolve().parents[2] / "docs/scale.md"


def test_the_page_shows_what_the_model_computes() -> None:
    page = PAGE.read_text()
    for table in (format_costs(Costs()), format_sizes(SIZES)):
        assert "\n".join(table) in page


def test_twice_the_delegates_need_twice_the_memory_of_sockets() -> None:
    one, two = (Capacity(Size(delegates)) for delegates in (50_000, 100_000))
    free_of_sockets = Capacity(Size(50_000), replace(Costs(), socket_bytes=0))
    assert two.socket_memory == 2 * one.socket_memory
    assert one.memory_bytes - free_of_sockets.memory_bytes == 45_000 * Costs().socket_bytes


def test_deployments_need_calls_and_space_in_proportion() -> None:
    few, many = (Capacity(Size(0, deployments_per_hour=hourly)) for hourly in (100, 1_000))
    assert many.calls_per_second == pytest.approx(10 * few.calls_per_second)
    assert many.bytes_per_day == 1_000 * 24 * (Costs().deployment_bytes + 5_000 * Costs().line_bytes)


def test_without_events_every_deployment_costs_the_calls_of_polling() -> None:
    polling = Capacity(Size(0, has_events=False))
    assert polling.calls_per_second == 1_000 / 3600 * Costs().calls_with_polling


def test_an_installation_has_at_least_two_of_each_process() -> None:
    smallest = Capacity(Size(1, deployments_per_hour=1, pages_per_second=0))
    assert (smallest.web_processes, smallest.workers) == (2, 2)
    assert smallest.connections == 2 * 8 + 2 * 2 + 10
