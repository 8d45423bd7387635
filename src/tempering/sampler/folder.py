"""The files of a sampler in a folder: whether they are there, and others in their place."""

from pathlib import Path

__all__ = ["has_sampler", "replace_sampler"]


def has_sampler(folder: Path) -> bool:
    """Whether a whole sampler is there: whoever finds one of its files damaged may delete it and resume."""
    return all((folder / name).exists() for name in ("sampler.json", "sampler.npz"))


def replace_sampler(sampler, folder: Path) -> None:
    """Save a sampler in place of another, whose files are kept in a folder of their own: `before-1`, `before-2`, ...

    A kill on the way leaves no sampler in the folder, and its checkpoints make the first one again.
    """
    number = next(n for n in range(1, 10_000) if not (folder / f"before-{n}").exists())
    place = folder / f"before-{number}"
    for name in ("result.json", "sampler.json", "sampler.npz", "samples.npz"):
        if (folder / name).exists():
            place.mkdir(exist_ok=True)
            (folder / name).replace(place / name)
    sampler.save(folder)
