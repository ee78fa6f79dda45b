"""Output of a container for the log measurements: lines of a web server."""

import random
from collections.abc import Iterator

SECRETS = tuple(f"secret-{number}-{random.Random(number).getrandbits(160):x}" for number in range(10))
_PATHS = ("/", "/index.html", "/api/orders", "/api/orders/{}/items", "/static/app.{:x}.js", "/healthz")


def generate_lines(seed: int) -> Iterator[str]:
    """Yield lines without end, about 140 characters each; one in a thousand contains a secret."""
    chance = random.Random(seed)
    while True:
        path = chance.choice(_PATHS).format(chance.randrange(10_000))
        token = chance.choice(SECRETS) if chance.random() < 0.001 else f"{chance.getrandbits(64):016x}"
        yield (
            f"203.0.113.{chance.randrange(250)} - GET {path} {chance.choice((200, 200, 200, 304, 404, 500))} "
            f"{chance.randrange(100_000)} {chance.random():.3f}s id={token} "
            f'"Mozilla/5.0 (X11; Linux x86_64) Version/{chance.randrange(20)}.{chance.randrange(10)}"'
        )
