"""What was asked of a run, how to ask it again and what to cite: rows and text for the page.

Consumes a `Story`; produces text. Nothing is evaluated.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from tempering.errors import TemperingError
from tempering.lab.presets import preset
from tempering.lab.report.contents import Story
from tempering.plots.contents import number_of
from tempering.runs.config import OWN_MODEL, config_to_dict
from tempering.runs.words import number_text

__all__ = ["asked_rows", "cite_text", "parameter_words", "reproduce_text"]

PAPER = """@inproceedings{rissanen2025ptsd,
  title     = {Progressive Tempering Sampler with Diffusion},
  author    = {Rissanen, Severi and OuYang, RuiKang and He, Jiajun and Chen, Wenlin and
               Heinonen, Markus and Solin, Arno and Hern{\\'a}ndez-Lobato, Jos{\\'e} Miguel},
  booktitle = {International Conference on Machine Learning},
  year      = {2025},
  note      = {arXiv:2506.05231}
}"""
"""The paper whose method this is."""


def cite_text(story: Story) -> str:
    """BibTeX of the paper, and of the library in the version that made the run."""
    version = (story.environment.get("versions") or {}).get("tempering")
    lines = ["title     = {tempering: a log density made into a sampler}", "author    = {{The tempering developers}}"]
    lines += [f"version   = {{{version}}}"] if version else []
    return PAPER + "\n@software{tempering,\n  " + ",\n  ".join([*lines, "year      = {2026}"]) + "\n}"


_MOST_CHANGES = 12


def asked_rows(story: Story) -> list[tuple[str, str]]:
    """What was asked: the density, its parameters, the method, the budget and the seed."""
    result, target = story.result, story.result.get("target") or {}
    rows = [("density", _density_words(story))]
    dim = number_of(result, "dim") or (target.get("arguments") or {}).get("dim")
    if story.geometry is not None:
        rows.append(("particles", f"{story.geometry.num_particles} in {story.geometry.spatial_dim}-D"))
    if dim is not None:
        rows.append(("dimensions", number_text(dim)))
    rows.append(("method", str(result.get("method") or "–")))
    budget = number_of(result, "budget")
    if budget is None:
        budget = number_of(result.get("ledger") or {}, "budget")
    rows.append(("budget", "no limit was given" if budget is None else f"{budget:,} evaluations at the most"))
    rows.append(("seed", str(result.get("seed") if result.get("seed") is not None else "–")))
    device = result.get("device") or ", ".join(map(str, story.environment.get("devices") or ()))
    return [*rows, *([("device", str(device))] if device else [])]


def _density_words(story: Story) -> str:
    chart, target = story.sampler.get("chart") or {}, story.result.get("target") or {}
    if not story.is_own:
        given = ", ".join(f"{name} = {value}" for name, value in (target.get("arguments") or {}).items())
        words = str(target.get("name") or story.name) + (f" ({given})" if given else "")
        return ". ".join(filter(None, [words, str(story.config.get("description") or "")]))
    if chart.get("name") in ("prior", "given prior", "prior_transform") and not chart.get("is_box"):
        return "your likelihood, with your prior; log Z is the evidence"
    return "your log density" if story.sampler else "a density of your own"  # a prior is on record at the end alone


def parameter_words(story: Story) -> dict[str, str]:
    """What is known of every parameter before the fit: its prior or its support, by name. Empty where nothing is."""
    chart, answer = story.sampler.get("chart") or {}, story.answer
    if answer is None:
        return {}
    words: dict[int, str] = {}
    if chart.get("name") in ("prior", "given prior"):
        for part in chart.get("parts") or ():
            for index, place in enumerate(part.get("places") or ()):
                words[place] = part.get("words") or _call(part, index)
    elif chart.get("name") == "supports":
        place = 0
        for block in chart.get("blocks") or ():
            size = int(block.get("num", 1)) * int(block.get("size", 1))
            for _ in range(size):
                words[place] = _support(block.get("support") or {})
                place += 1
    return {name: words[k] for k, name in enumerate(answer.names) if words.get(k)}


def _call(part: dict[str, Any], index: int) -> str:
    """A distribution as a user writes it, with the numbers of one coordinate."""
    numbers = []
    for value in (part.get("parameters") or {}).values():
        own = value[index] if isinstance(value, list) and index < len(value) else value
        if isinstance(own, int | float):
            numbers.append(f"{own:.4g}")
    return f"{part.get('name')}({', '.join(numbers)})"


def _support(support: dict[str, Any]) -> str:
    ends = [f"{value:.4g}" for name, value in support.items() if name != "name" and isinstance(value, int | float)]
    if support.get("name") == "above" and support.get("low") == 0.0:
        return "positive"
    return str(support.get("name", "")) + (f"({', '.join(ends)})" if ends else "")


def reproduce_text(story: Story) -> str:
    """The call or the command that makes this run again."""
    versions = story.environment.get("versions") or {}
    known = [f"{name} {version}" for name, version in versions.items() if version and name in ("tempering", "jax")]
    python = story.environment.get("python")
    made = ", ".join([*known, *([f"Python {python}"] if python else [])])
    comment = f"# made with {made}\n" if made else ""
    is_call = story.is_own and (story.config.get("target") or {}).get("name") != OWN_MODEL
    return comment + (_own_call(story) if is_call else _command(story))


def _own_call(story: Story) -> str:
    config, chart = story.config, story.sampler.get("chart") or {}
    what, more = "log_density", [f"dim={story.result.get('dim')}"] if story.result.get("dim") else []
    if story.sampler.get("structure"):
        what, more = "log_density", ["like=..."]
    if chart.get("name") == "supports" or chart.get("is_box"):
        more.append("support=...")
    elif chart.get("name") in ("prior", "given prior"):
        what, more = "log_likelihood", ["prior=..."]
    elif chart.get("name") == "prior_transform":
        what, more = "log_likelihood", ["prior_transform=...", f"dim={chart.get('dim')}"]
    if config.get("method") not in (None, "ptsd"):
        more.append(f"method={config['method']!r}")
    if config.get("budget"):
        more.append(f"budget={config['budget']:_}")
    if config.get("seed") is not None:
        more.append(f"seed={config['seed']}")
    if "by hand" in str(config.get("description")):
        more.append("settings=...  # see the configuration below" if story.sampler else "settings=...")
    if not story.sampler:  # what else was handed over stands in no file yet
        call = f"sampler = tp.fit(log_density, ..., {', '.join(more)}, out={str(story.folder)!r})"
        return f"import tempering as tp\n\n{call}  # with the arguments of the first call it goes on"
    lines = ["import tempering as tp", "", f"sampler = tp.fit({what}, {', '.join(more)})"]
    if "  # see" in lines[-1]:
        call, note = lines[-1].removesuffix(")").split("  # ")
        lines[-1] = f"{call})  # {note}"
    if story.folder:
        place = Path(story.folder)
        shown = place.name if place.is_absolute() else place.as_posix()
        lines.append(f"sampler = tp.load({shown!r}, {what})  # or read this folder")
    return "\n".join(lines)


def _command(story: Story) -> str:
    config = story.config
    words, changes, before = [f"tempering run {story.name}", f"--out {story.name}-again"], [], None
    if story.is_own:
        given = (config.get("target") or {}).get("arguments") or {}
        words = [f"tempering run {given.get('model') or story.name}", "--out again"]
        words += [f"--{name} {given[name]}" for name in ("dim", "data", "temperature") if given.get(name)]
        words += [f"--method {config['method']}"] if config.get("method") not in (None, "ptsd") else []
    else:
        with suppress(TemperingError):  # a preset of another version
            before = dict(_flat(config_to_dict(preset(story.name))))
    for path, value in _flat(config):
        is_told = path in ("name", "description", "seed", "budget")
        if before is not None and not is_told and before.get(path, value) != value:
            changes.append(f"{path.removeprefix('settings.')}={value if isinstance(value, str) else json.dumps(value)}")
    for name in ("seed", "budget"):
        if config.get(name) is not None and (before is None or before.get(name) != config[name]):
            words.append(f"--{name} {config[name]}")
    if changes:
        words.append("--set " + " ".join(f"'{change}'" for change in changes[:_MOST_CHANGES]))
    return " \\\n    ".join(words)


def _flat(record: dict[str, Any], prefix: str = ""):
    for name, value in record.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
