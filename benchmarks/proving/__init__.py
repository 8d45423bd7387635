"""The proving ground: densities that others know, with exact truths, and what judges an answer to them."""

import tempering as _  # noqa: F401, before JAX makes its first array: some versions compute wrongly without it
