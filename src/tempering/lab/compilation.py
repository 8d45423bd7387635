"""Compiled programs kept between processes: compiling is a third of a short run."""

import os
from pathlib import Path

import jax

__all__ = ["enable_compilation_cache"]


def enable_compilation_cache() -> None:
    """Use $TEMPERING_CACHE, or the user's cache folder; a home that cannot be written only costs compile time."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tempering" / "jax"
    place = Path(os.environ.get("TEMPERING_CACHE", default))
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    jax.config.update("jax_compilation_cache_dir", str(place))
    # The hundreds of small programs too: read back, they save half of what a command costs before it starts.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
