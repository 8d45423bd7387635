"""What each command takes, in the order of `tempering --help`. Nothing here is imported but the parser's own words."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from tempering.lab.reproduce.names import NAMES

__all__ = ["COMMANDS", "Command", "Option", "whole"]


@dataclass(frozen=True)
class Option:
    """An argument of a command.

    Args:
        names: of the option, or the one name of an argument that is given by its place.
        how: what argparse takes.
        values: what shells complete it by: a folder, a file, a model, or words.
    """

    names: tuple[str, ...]
    how: dict[str, Any]
    values: str | tuple[str, ...] = ()


@dataclass(frozen=True)
class Command:
    """A command.

    Args:
        home: the function that carries it out, as `module:name` in this room; imported when the command is run.
        about: one sentence for `tempering --help`.
        more: what its own help says after that.
    """

    home: str
    about: str
    options: tuple[Option, ...]
    more: str = ""

    def function(self) -> Callable[..., int | None]:
        """The function itself."""
        module, _, name = self.home.partition(":")
        return getattr(import_module(f"tempering.cli.{module}"), name)


def whole(text: str) -> int:
    """A whole number as people write it: 100000, 100_000, 1e5.

    Raises:
        ValueError: for anything else.
    """
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if not number.is_integer():  # also of infinities and NaN
            raise
        return int(number)


def _option(*names: str, values: str | tuple[str, ...] = (), **how: Any) -> Option:
    return Option(names, how, values)


_flag = partial(_option, action="store_true")
_path = partial(_option, type=Path)
_whole = partial(_option, type=whole, metavar="N")
_FOLDER = _path("folder", values="folder", help="the run's folder")
_QUIET = _flag("--quiet", help="show nothing but the result")
_TIME_LIMIT = _option(
    "--time-limit",
    type=float,
    metavar="SECONDS",
    help="end the fit after about this time, with the best sampler so far",
)
_DEVICES = _option(
    "--devices", metavar="N", help="share the work out over N devices of JAX; the word all takes every device"
)
_SOLVERS = ("heun", "euler", "churn", "sde")
_METHODS = ("ptsd", "ptsd_paper", "pt_dm", "reweighted", "fab", "dds", "cmcd", "idem", "bnem", "dikl")
_MODEL_HELP = (
    "a name of `tempering list`; or your own model: file.py:name or module:name, a .stan file, or a folder with "
    "system.xml and topology.pdb of OpenMM"
)
_MORE_ON_RUN = (
    "file.py:name may be a function of one point with --dim, a target such as tp.from_callable makes, a function "
    "without arguments that returns a target, a NumPyro model with --data, or a PyMC model. The file may set dim, "
    "like, support, prior, prior_transform and data. They mean what they mean for tp.fit. docs/command-line.md has "
    "examples."
)

COMMANDS: dict[str, Command] = {
    "list": Command(
        "listing:show_presets",
        "Show the presets, each with its method and its cost in evaluations.",
        (_flag("--all", help="show all presets: the paper's settings, other methods and ablations as well"),),
    ),
    "run": Command(
        "running:run",
        "Fit a preset or your own model, judge it and write its report.",
        (
            _option("model", metavar="MODEL", values="model", help=_MODEL_HELP),
            _path("--out", values="folder", help="a new folder for the run (default: a folder in runs/ with its name)"),
            _whole("--seed", help="everything random follows from it"),
            _whole("--budget", help="the largest number of evaluations, such as 1e5"),
            _TIME_LIMIT,
            _DEVICES,
            _option(
                "--method",
                values=_METHODS,
                help=f"the method for a model of your own: {', '.join(_METHODS[:-1])} or {_METHODS[-1]}",
            ),
            _whole("--dim", help="the dimension of a point, if your model is a function of one point"),
            _path("--data", values="file", help="the data of your model: .npz with named arrays, or .json"),
            _option("--temperature", type=float, metavar="K", help="for an OpenMM system, in kelvin (default: 300)"),
            _option(
                "--set",
                action="extend",
                nargs="+",
                default=[],
                metavar="NAME=VALUE",
                help="change settings by name, such as training.num_steps=500; give one or more",
            ),
            _flag("--dry-run", help="print the planned evaluations by stage, and stop"),
            _flag("--json", help="with --dry-run: print the plan and the whole configuration as JSON"),
            _QUIET,
        ),
        _MORE_ON_RUN,
    ),
    "resume": Command(
        "running:resume",
        "Go on with a run that was stopped, or spend more evaluations on a finished one.",
        (
            _FOLDER,
            _whole("--budget", help="spend this many more evaluations on a finished run"),
            _TIME_LIMIT,
            _DEVICES,
            _QUIET,
        ),
    ),
    "watch": Command(
        "watching:watch",
        "Follow a run from another terminal: stage, evaluations, effective sizes, time.",
        (
            _FOLDER,
            _flag("--once", help="show the state once and stop"),
            _flag("--report", help="write the report again after every finished part"),
            _option("--every", type=float, default=1.0, metavar="SECONDS", help="how often to look (default: 1)"),
        ),
        "The command ends when the run ends. The exit code is 1 if the run's process ended before the run did.",
    ),
    "sample": Command(
        "reading:sample",
        "Draw from a trained sampler into a file: .npz, .csv, .parquet, .nc (NetCDF) or .txt (GetDist).",
        (
            _path("folder", values="folder", help="a run's folder, or one that `sampler.save` wrote"),
            _whole("-n", "--num", default=10_000, help="how many draws (default: 10,000)"),
            _path(
                "-o",
                "--out",
                values="file",
                default=Path("draws.npz"),
                help="the file to write, in the format of its suffix; it must not exist (default: draws.npz)",
            ),
            _whole("--seed", default=0, help="the same seed gives the same draws (default: 0)"),
            _option(
                "--solver",
                values=_SOLVERS,
                help="how draws are made: heun or euler follow the probability flow, churn adds kicks, sde is the "
                "reverse SDE (default: the run's own; with --weighted it cannot be another)",
            ),
            _option(
                "--steps", type=whole, metavar="N", help="steps of the solver (default: the run's own; sde needs more)"
            ),
            _flag("--weighted", help="add log weights that correct expectations; costs one evaluation per draw"),
            _flag("--quasi-random", help="with --weighted: spread the draws evenly; means may be much more exact"),
            _flag("--even", help="write evenly spread points without weights instead; costs two evaluations per point"),
        ),
    ),
    "points": Command(
        "reading:points",
        "Show the points that a run of a Python density paid for, or write them to a file.",
        (
            _path("folder", values="folder", help="the run's folder, or the folder that `store=` named"),
            _path(
                "-o", "--out", values="file", help="a new file with every point: .parquet, .csv or .npz, by its suffix"
            ),
        ),
        "Every point is kept as it arrives, with its log density, gradient, seconds, worker and outcome. This command "
        "evaluates nothing and does not disturb a run.",
    ),
    "diagnose": Command(
        "reading:diagnose",
        "Say in words whether the answer of a run can be trusted, and what to do if not.",
        (_FOLDER,),
    ),
    "evaluate": Command(
        "running:evaluate",
        "Judge a trained sampler again, for example with more samples in the transport distances.",
        (
            _FOLDER,
            _whole("--num-samples", help="the number of draws, compared with as many exact samples"),
            _whole("--num-transport", help="how many of them the exact optimal transport uses"),
            _QUIET,
        ),
    ),
    "report": Command(
        "reading:report",
        "Write the figures and the report, an HTML page, into a run's folder.",
        (_FOLDER,),
    ),
    "compare": Command(
        "reading:compare",
        "Put runs side by side: a table here, and an HTML page.",
        (
            _path("folders", nargs="+", values="folder", metavar="FOLDER", help="folders of two runs or more"),
            _path("-o", "--out", values="file", default=Path("compare.html"), help="the page (default: compare.html)"),
        ),
    ),
    "reference": Command(
        "reading:reference",
        "Make reference samples of particles or a molecule by long parallel tempering.",
        (
            _option("name", values=("dw4", "lj13", "lj55", "aldp"), help="a preset of particles or of a molecule"),
            _whole("-n", "--n", dest="num", default=10_000, help="how many samples (default: 10,000)"),
            _path(
                "--out", values="folder", help="a folder for reference.npz and reference.json; the cache if not given"
            ),
            _whole("--seed", help="everything random follows from it (default: 0)"),
            _whole("--chains", help="the number of independent ladders of chains"),
            _whole("--steps", help="the number of HMC steps of every chain; the first quarter is not kept"),
            _flag("--force", help="make the samples again, whatever is in the folder"),
            _QUIET,
        ),
        "A set that was made before is found again. The exit code is 1 if its evidence says that it has not converged.",
    ),
    "reproduce": Command(
        "reproducing:reproduce",
        "Make a table or figure of the paper, ours beside its own.",
        (
            _option("name", nargs="?", values=tuple(NAMES), metavar="NAME", help="its name; --list shows all names"),
            _flag("--list", help="show the names, with what each is"),
            _flag("--quick", help="make a small version in minutes on two cores; it has not the paper's settings"),
            _option("--seeds", type=whole, nargs="+", metavar="N", help="the seeds (default: 0 to 4, or 0 if costly)"),
            _option("--only", nargs="+", metavar="WORD", help="make only these targets or presets, such as mog40"),
            _path("--out", values="folder", default=Path("results/reproduce"), help="the folder for JSON and figures"),
            _path("--folder", values="folder", default=Path("runs/reproduce"), help="the folder for the runs"),
            _option("--most-minutes", type=float, metavar="M", help="stop after M minutes; the same command goes on"),
            _flag("--dry-run", help="say what would be run, how long it takes and what is there, and stop"),
            _flag("--only-show", help="run nothing; show and draw what is there"),
            _flag("--fresh", help="make cells again that are older than the code"),
            _option("--commit", metavar="NAME", help="the commit of the code, if the code is not a checkout of git"),
            _QUIET,
        ),
        "Finished cells are read back, and a cell that was stopped goes on. Several of these commands may share a "
        "folder: each takes cells that no other works on. The exit code is 1 if cells are left.",
    ),
    "completion": Command(
        "completion:show_completion",
        "Print a script that completes commands, options and presets in your shell.",
        (_option("shell", choices=("bash", "zsh", "fish"), values=("bash", "zsh", "fish"), help="your shell"),),
        'For bash put `eval "$(tempering completion bash)"` into ~/.bashrc; docs/command-line.md has the other shells.',
    ),
}
"""Every command by its name."""
