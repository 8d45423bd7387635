"""The proving ground: densities that others know, over seeds, with our method and its rivals.

    python benchmarks/densities.py list
    python benchmarks/densities.py run --density eggbox funnel-10 --seeds 0 1 2 --out results/proving/tempering.json
    python benchmarks/densities.py run --density eggbox --method dynesty nautilus --out results/proving/rivals.json
    python benchmarks/densities.py random --count 100 --out results/proving/random.json
    python benchmarks/densities.py findable --count 100
    python benchmarks/densities.py join part-1.json part-2.json --out results/proving/tempering.json
    python benchmarks/densities.py table
    python benchmarks/densities.py figure

`run` and `random` write a row for a density, a method and a seed, and skip rows that are there. Several processes may
share the work if each has an --out of its own; `join` adds these files to another, where a row takes the place of an
older one of the same density, method, seed and budget. `table` and `figure` read all files of results/proving/. What
the densities are: docs/proving-ground.md.
"""

import argparse
import json
from pathlib import Path

from measure import commit
from proving.catalogue import DENSITIES, density_of
from proving.mixtures import FINDABLE, hits, known_findable, random_mixture
from proving.outcomes import outcome_table
from proving.runner import OURS, Method, joined, read_rows, run, write_rows

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results" / "proving"
RIVALS = ("dynesty", "nautilus", "pocomc", "smc", "nuts")


def methods_of(names: list[str]) -> dict[str, Method]:
    """Methods by name. What a method needs is imported only where it is asked for."""
    made: dict[str, Method] = {}
    for name in names:
        if name == OURS:
            from proving.ours import tempering

            made[name] = tempering
        else:
            from proving.rivals import RIVAL_METHODS

            made[name] = RIVAL_METHODS[name]
    return made


def do_list(_: argparse.Namespace) -> None:
    for name in DENSITIES:
        density = density_of(name)
        log_z = "unknown" if density.log_z is None else f"{density.log_z:.4f}"
        print(f"{name:20} {density.dim:3} dim  {density.handed_over:27} log Z {log_z}")


def do_run(options: argparse.Namespace) -> None:
    names = list(DENSITIES) if options.density == ["all"] else options.density
    made = options.commit or commit()
    for name in names:
        methods = {
            method: fit for method, fit in methods_of(options.method).items() if _is_possible(method, name, options)
        }
        run([name], methods, options.seeds, options.out, budget=options.budget, commit=made, say=_say)


def _is_possible(method: str, name: str, options: argparse.Namespace) -> bool:
    """Rivals that need a bounded prior or take no cap are left out where that is asked of them."""
    if method == OURS:
        return True
    from proving.rivals import UNCAPPED, can_run

    is_possible = can_run(method, density_of(name)) and not (method in UNCAPPED and options.budget is not None)
    if not is_possible:
        _say(f"{name}, {method}: cannot be run so")
    return is_possible


def do_random(options: argparse.Namespace) -> None:
    names = [f"mixture-{k}" for k in range(options.first, options.first + options.count)]
    made, methods = options.commit or commit(), methods_of(options.method)
    rows = run(names, methods, options.seeds, options.out, budget=options.budget, commit=made, say=_say)
    rows = [row | {"findable": known_findable(int(row["density"].split("-")[1]))} for row in rows]
    write_rows(options.out, rows)
    for method in methods:
        print(f"\n{method}\n\n{outcome_table([row for row in rows if row['method'] == method])}")


def do_findable(options: argparse.Namespace) -> None:
    """Count the hits of uphill searches for every component, and keep them."""
    kept = json.loads(FINDABLE.read_text())["hits"] if FINDABLE.exists() else {}
    for seed in range(options.first, options.first + options.count):
        if str(seed) not in kept:
            kept[str(seed)] = hits(random_mixture(seed)).tolist()
    command = "python benchmarks/densities.py findable --count 100"
    lines = ",\n".join(f'  "{seed}": {json.dumps(kept[seed])}' for seed in sorted(kept, key=int))
    FINDABLE.write_text(f'{{\n "command": "{command}",\n "hits": {{\n{lines}\n }}\n}}\n')
    found = sum(min(kept[str(seed)]) >= 4 for seed in range(options.first, options.first + options.count))
    print(f"{found} of {options.count} are findable")


def do_join(options: argparse.Namespace) -> None:
    rows = joined(*(read_rows(path) for path in (options.out, *options.parts)))
    write_rows(options.out, rows)
    print(f"{options.out}: {len(rows)} rows")


def do_table(options: argparse.Namespace) -> None:
    from proving.report import write_page

    write_page(options.page, read_rows(*_files(options)))


def do_figure(options: argparse.Namespace) -> None:
    from proving.report import picture

    options.to.write_bytes(picture(read_rows(*_files(options))))
    print(f"written: {options.to}")


def _files(options: argparse.Namespace) -> list[Path]:
    return options.rows or [path for path in sorted(RESULTS.glob("*.json")) if path.stem != "references"]


def _budget(text: str) -> int | str:
    return text if text == "equal" else int(text)


def _say(line: str) -> None:
    print(line, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="names, dimensions and truths").set_defaults(do=do_list)
    runs = commands.add_parser("run", help="densities by name")
    runs.add_argument("--density", nargs="+", required=True, choices=[*DENSITIES, "all"], metavar="NAME")
    runs.set_defaults(do=do_run)
    random = commands.add_parser("random", help="random mixtures, and the four outcomes")
    random.set_defaults(do=do_random)
    findable = commands.add_parser("findable", help="which random mixtures uphill searches can find")
    findable.set_defaults(do=do_findable)
    for command, stem in ((runs, "tempering"), (random, "random")):
        command.add_argument("--method", nargs="+", choices=["tempering", *RIVALS], default=["tempering"])
        command.add_argument("--seeds", nargs="+", type=int, default=[0])
        command.add_argument("--budget", type=_budget, default=None, help="evaluations; equal: as many as ours takes")
        command.add_argument("--out", type=Path, default=RESULTS / f"{stem}.json")
        command.add_argument("--commit", default=None, help="where the tree is not a git checkout")
    for command in (random, findable):
        command.add_argument("--first", type=int, default=0, help="seed of the first mixture")
        command.add_argument("--count", type=int, default=100)
    join = commands.add_parser("join", help="add rows of other files; newer rows take the place of older ones")
    join.add_argument("parts", nargs="+", type=Path, metavar="FILE")
    join.add_argument("--out", type=Path, default=RESULTS / "tempering.json")
    join.set_defaults(do=do_join)
    table = commands.add_parser("table", help="write the tables of docs/proving-ground.md")
    table.add_argument("--page", type=Path, default=ROOT / "docs" / "proving-ground.md")
    table.set_defaults(do=do_table)
    figure = commands.add_parser("figure", help="draw docs/figures/proving-ground.png")
    figure.add_argument("--to", type=Path, default=ROOT / "docs" / "figures" / "proving-ground.png")
    figure.set_defaults(do=do_figure)
    for command in (table, figure):
        command.add_argument("--rows", nargs="+", type=Path, default=None, help="files of rows; results/proving/*.json")
    return parser


def main() -> None:
    options = _parser().parse_args()
    options.do(options)


if __name__ == "__main__":
    main()
