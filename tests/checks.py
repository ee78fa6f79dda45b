"""`make check`: lint, types and wiring run beside the tests, and print their output only if they fail."""

import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

CHECKS = ("lint", "types", "wiring")
TESTS = "test"


@dataclass(frozen=True)
class CheckResult:
    """The end of one make target."""

    target: str
    output: str
    seconds: float
    is_passed: bool

    def __str__(self) -> str:
        verdict = f"{self.target}: {'passed' if self.is_passed else 'FAILED'} in {format_time(self.seconds)}"
        return verdict if self.is_passed else f"{self.output}\n{verdict}"


def format_time(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02} min"


def run_target(target: str, *, is_shown: bool = False) -> CheckResult:
    """Run a make target to its end; show its output at once or keep it."""
    began = time.monotonic()
    command = ["make", "--no-print-directory", target]
    output = None if is_shown else subprocess.PIPE
    run = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, text=True, check=False)
    return CheckResult(target, run.stdout or "", time.monotonic() - began, run.returncode == 0)


def main() -> int:
    began = time.monotonic()
    # One after the other: the tests need most of the machine.
    with ThreadPoolExecutor(1) as pool:
        checks: list[Future[CheckResult]] = [pool.submit(run_target, target) for target in CHECKS]
        results = [run_target(TESTS, is_shown=True), *(check.result() for check in checks)]
    print("", *results, f"make check took {format_time(time.monotonic() - began)}", sep="\n")
    return 0 if all(result.is_passed for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
