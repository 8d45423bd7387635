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
    "--time-limit", type=float, metavar="SECONDS", help="end the fit after so long, in the best sampler so far"
)
_DEVICES = _option(
    "--devices", metavar="N", help="share the work out over so many devices of JAX, or over all: a number, or all"
)
_SOLVERS = ("heun", "euler", "churn", "sde")
_METHODS = ("ptsd", "ptsd_paper", "pt_dm", "reweighted", "fab", "dds", "cmcd", "idem", "bnem", "dikl")
_MODEL_HELP = (
    "a name of `tempering list`; or your own model: file.py:name or module:name, a .stan file, or a folder with "
    "system.xml and topology.pdb of OpenMM"
)
_MORE_ON_RUN = (
    "file.py:name may be a function of one point with --dim, a target such as tp.from_callable makes, a function "
    "without arguments that returns one, a NumPyro model with --data, or a PyMC model. The file may set dim, like, "
    "support, prior, prior_transform and data: tp.fit takes them under the same names. docs/command-line.md "
    "has examples."
)

COMMANDS: dict[str, Command] = {
    "list": Command(
        "listing:show_presets",
        "Show the presets with the method that fits each and what it will cost.",
        (_flag("--all", help="the ablations as well"),),
    ),
    "run": Command(
        "running:run",
        "Fit a preset or your own model, judge it and write its report.",
        (
            _option("model", metavar="MODEL", values="model", help=_MODEL_HELP),
            _path("--out", values="folder", help="a new folder for the run; needed unless --dry-run"),
            _whole("--seed", help="everything random follows from it"),
            _whole("--budget", help="the most evaluations to spend, such as 1e5"),
            _TIME_LIMIT,
            _DEVICES,
            _option("--method", values=_METHODS, help=f"{', '.join(_METHODS[:-1])} or {_METHODS[-1]}; of an own model"),
            _whole("--dim", help="the dimension of a point, where an own model is a function of one"),
            _path("--data", values="file", help="the data of an own model: .npz with named arrays, or .json"),
            _option("--temperature", type=float, metavar="K", help="of an OpenMM system, in kelvin (default: 300)"),
            _option(
                "--set",
                action="extend",
                nargs="+",
                default=[],
                metavar="NAME=VALUE",
                help="change single settings, such as training.num_steps=500; takes several, and may be repeated",
            ),
            _flag("--dry-run", help="print the planned evaluations by stage, and stop"),
            _flag("--json", help="with --dry-run: plan and whole configuration as JSON"),
            _QUIET,
        ),
        _MORE_ON_RUN,
    ),
    "resume": Command(
        "running:resume",
        "Go on with a run that was stopped, or spend more evaluations on a finished one.",
        (
            _FOLDER,
            _whole("--budget", help="evaluations to spend on top of a finished run"),
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
            _flag("--report", help="write the report anew after every finished part"),
            _option("--every", type=float, default=1.0, metavar="SECONDS", help="how often to look (default: 1)"),
        ),
        "Ends by itself when the run ends. The exit code is 1 if the run's process ended before the run did.",
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
            _flag("--quasi-random", help="weighted draws that cover the target evenly: means may be much closer"),
            _flag("--even", help="equally weighted points made of such draws instead; costs two evaluations per point"),
        ),
    ),
    "points": Command(
        "reading:points",
        "Show the points that a run of a Python density paid for, or write them to a file.",
        (
            _path("folder", values="folder", help="the run's folder, or the one of `store=`"),
            _path(
                "-o", "--out", values="file", help="a new file with every point: .parquet, .csv or .npz, by its suffix"
            ),
        ),
        "A point is kept with its log density, gradient, seconds, worker and outcome as it arrives. Nothing is "
        "evaluated, and a run that goes on is not disturbed.",
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
            _whole("--num-samples", help="draws compared with as many exact ones"),
            _whole("--num-transport", help="of these, how many enter the exact optimal transport"),
            _QUIET,
        ),
    ),
    "report": Command(
        "reading:report",
        "Write the figures and the HTML page of a run's folder.",
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
            _option("name", values=("dw4", "lj13", "lj55", "aldp"), help="a preset that is about particles"),
            _whole("-n", "--n", dest="num", default=10_000, help="how many samples (default: 10,000)"),
            _path(
                "--out", values="folder", help="a folder for reference.npz and reference.json; the cache if not given"
            ),
            _whole("--seed", help="everything random follows from it (default: 0)"),
            _whole("--chains", help="independent ladders of chains"),
            _whole("--steps", help="HMC steps of every chain, the first quarter of which is thrown away"),
            _flag("--force", help="make it anew, whatever lies in the folder"),
            _QUIET,
        ),
        "A set that was made before is found again. The exit code is 1 if it has not converged by its own evidence.",
    ),
    "reproduce": Command(
        "reproducing:reproduce",
        "Make a table or figure of the paper, ours beside its own.",
        (
            _option("name", nargs="?", values=tuple(NAMES), metavar="NAME", help="its name; --list shows them"),
            _flag("--list", help="the names, with what each is"),
            _flag("--quick", help="a small version in minutes on two cores: not the paper's settings"),
            _option("--seeds", type=whole, nargs="+", metavar="N", help="the seeds (default: 0 to 4, or 0 if costly)"),
            _option("--only", nargs="+", metavar="WORD", help="only these targets or presets, such as mog40"),
            _path("--out", values="folder", default=Path("results/reproduce"), help="for JSON and figures"),
            _path("--folder", values="folder", default=Path("runs/reproduce"), help="for the runs, to go on with"),
            _option("--most-minutes", type=float, metavar="M", help="stop after so long; the same command goes on"),
            _flag("--dry-run", help="say what would be run, how long it takes and what is there, and stop"),
            _flag("--only-show", help="run nothing: show and draw what is there"),
            _flag("--fresh", help="make cells again that are older than the code"),
            _option("--commit", metavar="NAME", help="of the code, where it is no checkout of git"),
            _QUIET,
        ),
        "Finished cells are read back, and one that was stopped goes on. Several of these commands may share a folder: "
        "each takes what no other is at. The exit code is 1 where cells are left.",
    ),
    "completion": Command(
        "completion:show_completion",
        "Print a script that completes commands, options and presets in your shell.",
        (_option("shell", choices=("bash", "zsh", "fish"), values=("bash", "zsh", "fish"), help="your shell"),),
        'For bash put `eval "$(tempering completion bash)"` into ~/.bashrc; docs/command-line.md has the other shells.',
    ),
}
"""Every command by its name."""
