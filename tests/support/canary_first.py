"""Pytest plugin: the canary runs before every other test, and when it dies nothing else is worth running.

A compiler that computes wrong numbers makes every other failure a riddle and every other pass a rumour. Under xdist
the canary is the first test of the first worker; the controller stops all of them as soon as it hears of the failure.
"""

import pytest

__all__ = ["CANARY_FILE", "pytest_collection_modifyitems", "pytest_configure"]

CANARY_FILE = "test_00_canary.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the canary to the front; the sort is stable, so the others keep their order."""
    items.sort(key=lambda item: item.path.name != CANARY_FILE)


class _StopWhenTheCanaryDies:
    # trylast: the terminal reporter must have recorded the failure, or its numbers would not be shown.
    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and report.nodeid.split("::")[0].endswith(CANARY_FILE):
            pytest.exit(
                f"{report.nodeid} failed: this JAX computes wrong numbers here, so no other result can be trusted. "
                "Install the versions of constraints.txt; docs/decisions/0002-dependencies.md says which are excluded.",
                returncode=pytest.ExitCode.TESTS_FAILED,
            )


def pytest_configure(config: pytest.Config) -> None:
    """Watch the reports, in the process that sees all of them: an xdist worker must first send its own on."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_StopWhenTheCanaryDies(), "stop-when-the-canary-dies")
