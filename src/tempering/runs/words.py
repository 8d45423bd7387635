"""Numbers as people read them: values with their errors, durations, counts. No array, no file."""

import math

__all__ = ["duration_text", "error_text", "number_text", "parted", "with_error"]

DASH = "–"
_MOST_DECIMALS = 6
"""More than these are written with a power of ten."""


def duration_text(seconds: int | float) -> str:
    """A duration as people say it: 4.2 s, 3 min 07 s, 2 h 05 min."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes = round(seconds) // 60
    if minutes < 60:
        return f"{minutes} min {round(seconds) % 60:02d} s"
    return f"{minutes // 60:,} h {minutes % 60:02d} min"


def number_text(value: int | float | None, digits: int = 4) -> str:
    """A number for people: `digits` significant ones, large or whole numbers with separators, a dash for none."""
    if value is None or not math.isfinite(value):
        return DASH
    is_whole = float(value).is_integer()
    if abs(value) < 1e15 and (is_whole or abs(value) >= 10**digits):
        return f"{value:,.0f}"
    return f"{value:#.{digits}g}"


def with_error(value: float | None, error: float | None) -> str:
    """A value and its standard error: two significant digits of the error, and as many decimals of the value.

    Examples:
        >>> with_error(3.15123, 0.00042)
        '3.15123 ± 0.00042'
        >>> with_error(1234.5, 31.0)
        '1,234 ± 31'
    """
    if value is None or not math.isfinite(value):
        return DASH
    if error is None or not math.isfinite(error):
        return number_text(value)
    if error <= 0:
        return f"{number_text(value)} ± 0"
    decimals = _decimals(error)
    if decimals > _MOST_DECIMALS:
        power = math.floor(math.log10(max(abs(value), error)))
        scaled = decimals + power
        return f"({value / 10.0**power:.{scaled}f} ± {error / 10.0**power:.{scaled}f})e{power:+03d}"
    return f"{value:,.{decimals}f} ± {error:,.{decimals}f}"


def parted(text: str) -> tuple[str, str, str]:
    """A value, `±` and its error, as `with_error` wrote them; what has no such parts is a value alone.

    Examples:
        >>> parted("3.15123 ± 0.00042")
        ('3.15123', '±', '0.00042')
        >>> parted("(1.2 ± 0.3)e-15")
        ('(1.2 ± 0.3)e-15', '', '')
    """
    value, sign, error = text.partition(" ± ")
    return (text, "", "") if not sign or value.startswith("(") else (value, sign.strip(), error)


def error_text(error: float | None) -> str:
    """A standard error alone, to two significant digits."""
    if error is None or not math.isfinite(error):
        return DASH
    decimals = 0 if error <= 0 else _decimals(error)
    return f"{error:.1e}" if decimals > _MOST_DECIMALS else f"{error:,.{decimals}f}"


def _decimals(error: float) -> int:
    """Decimals that show two significant digits; an error of 0.0996 is written 0.100."""
    return max(0, 1 - math.floor(math.log10(float(f"{error:.1e}"))))
