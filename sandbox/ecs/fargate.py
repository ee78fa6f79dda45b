"""The sizes that Fargate offers."""

import re

# CPU units -> (smallest MiB, largest MiB, step)
SIZES: dict[int, tuple[int, int, int]] = {
    256: (512, 2048, 512),
    512: (1024, 4096, 1024),
    1024: (2048, 8192, 1024),
    2048: (4096, 16384, 1024),
    4096: (8192, 30720, 1024),
    8192: (16384, 61440, 4096),
    16384: (32768, 122880, 8192),
}
WITH_UNIT = re.compile(r"^\s*(\d+(?:\.\d+)?|\.\d+)\s*(vcpu|gb)\s*$", re.IGNORECASE)


def units(text: str) -> int | None:
    """CPU units or MiB in a task size: `1024`, `1 vCPU`, `2GB`; None if it is neither."""
    if found := WITH_UNIT.match(text):
        return int(float(found[1]) * 1024)
    return int(text) if text.strip().isdigit() else None


def is_offered(cpu: int, memory: int) -> bool:
    if cpu not in SIZES:
        return False
    smallest, largest, step = SIZES[cpu]
    # The smallest size alone also comes in half steps: 512, 1024, 2048.
    if cpu == 256:
        return memory in (512, 1024, 2048)
    return smallest <= memory <= largest and (memory - smallest) % step == 0
