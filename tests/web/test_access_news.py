"""Which open connections a change of access wakes, and that none goes on before it looked again."""

import asyncio

import pytest
from channels.layers import get_channel_layer

from rbac.changes import GROUP, mark_of
from web.access_news import Attention, attention


async def changed(*, people: tuple[int, ...] = (), sessions: tuple[str, ...] = ()) -> None:
    message = {
        "type": "access.changed",
        "people": list(people),
        "sessions": [mark_of(one) for one in sessions],
    }
    await get_channel_layer().group_send(GROUP, message)


async def woken(*connections: Attention) -> list[bool]:
    """Which of the connections are to look again, once the last of them was told."""
    async with asyncio.timeout(60):
        while not any(not one.settled.is_set() for one in connections):
            await asyncio.sleep(0)
    return [not one.settled.is_set() for one in connections]


@pytest.mark.parametrize(
    ("people", "sessions", "expected"),
    [((1,), (), [True, False]), ((), ("second",), [False, True]), ((), (), [True, True])],
)
async def test_a_change_wakes_those_whom_it_is_about(
    people: tuple[int, ...], sessions: tuple[str, ...], expected: list[bool]
):
    async with attention() as first, attention() as second:
        for number, (one, key) in enumerate(((first, "first"), (second, "second")), start=1):
            one.person, one.session = number, mark_of(key)
            one.settle()
        await changed(people=people, sessions=sessions)
        assert await woken(first, second) == expected


async def test_a_connection_whose_person_is_not_known_yet_looks_again_after_any_change():
    async with attention() as one:
        one.settle()
        await changed(people=(4,))
        assert await woken(one) == [True]


async def test_news_during_a_look_is_looked_at_before_anything_goes_on():
    async with attention() as one:
        one.wake()
        await one.news(5)
        one.wake()
        one.settle()
        assert not one.settled.is_set()
        await one.news(5)
        one.settle()
        assert one.settled.is_set()
