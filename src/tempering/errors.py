"""What the library refuses, by kind. Every message says what was given, what is allowed and what to do."""

__all__ = ["BudgetError", "DensityError", "RunFolderError", "SettingsError", "TemperingError"]


class TemperingError(ValueError):
    """Base of every refusal, so that `except ValueError` catches bad input too."""


class SettingsError(TemperingError):
    """A setting, ladder, preset or argument outside what is allowed."""


class DensityError(TemperingError):
    """The density returns the wrong thing, raises, has no gradient, or is finite nowhere."""


class BudgetError(TemperingError):
    """A plan or a stage that would spend more evaluations than the budget."""


class RunFolderError(TemperingError):
    """A run folder that is in use, damaged, foreign, or of another configuration."""
