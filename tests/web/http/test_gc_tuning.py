"""What a request leaves behind is cleared away once it is answered."""

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from web.http.gc_tuning import GarbageCollectionMiddleware


class Thing:
    """Something that holds itself, as forms and templates do."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _only_when_told() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("fails", [False, True])
async def test_what_holds_itself_is_gone_when_the_answer_is(fails: bool) -> None:
    references: list[weakref.ref[Thing]] = []

    async def application(*_: Any) -> None:
        references.append(weakref.ref(Thing()))
        assert references[0]() is not None, "nobody has looked yet"
        if fails:
            raise ConnectionError

    try:
        await GarbageCollectionMiddleware(application)({}, None, None)  # type: ignore[arg-type]
    except ConnectionError:
        assert fails
    assert references[0]() is None
