"""The pretend account of these tests: one process, emptied before each test."""

import pytest

from sandbox.process import SandboxProcess
from tests.contract.endpoint import Aws


@pytest.fixture
def aws(sandbox_process: SandboxProcess) -> Aws:
    account = Aws.pretend(sandbox_process)
    account.empty()
    return account
