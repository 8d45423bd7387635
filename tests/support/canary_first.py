"""Pytest plugin: the order of the tests, and which of them share a worker of xdist.

The canary runs before every other test, and when it dies nothing else is worth running: a compiler that computes wrong
numbers makes every other failure a riddle and every other pass a rumour. Under xdist it is the first test of the first
worker; the controller stops all of them as soon as it hears of the failure.

A file's tests stay together, because they share fixtures, and so do files that fit with the same settings: what one of
them has compiled serves the next.
"""

import pytest

__all__ = ["CANARY_FILE", "pytest_collection_modifyitems", "pytest_configure"]

CANARY_FILE = "test_00_canary.py"
_TOGETHER = {
    "test_cli.py": "runs",
    "test_resume.py": "runs",
    "test_methods.py": "tiny fits",
    "test_adaptive_runs.py": "tiny fits",
    "test_callback_fits.py": "tiny fits",
}
"""Files whose settings are those of `support.tiny`, by what they do with them."""


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in a hook of the same name
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the canary to the front (the sort is stable, so the others keep their order), and group for xdist."""
    items.sort(key=lambda item: item.path.name != CANARY_FILE)
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_TOGETHER.get(item.path.name, item.path.stem)))


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
