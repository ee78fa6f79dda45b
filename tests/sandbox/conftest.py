"""The pretend account of these tests: one process, emptied before each test."""

import pytest

from sandbox.process import SandboxProcess
from tests.sandbox.account import Aws


@pytest.fixture
def aws(sandbox_process: SandboxProcess) -> Aws:
    sandbox_process.clear_faults()
    sandbox_process.reset()
    return Aws(sandbox_process, sandbox_process.seed())
