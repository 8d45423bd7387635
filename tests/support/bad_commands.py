"""Command lines that are wrong, drawn by hypothesis: for `test_fuzz.py`."""

from hypothesis import strategies as st

from support.bad_input import words
from tempering.cli.options import whole
from tempering.lab.presets import PRESETS

__all__ = ["bad_commands"]


def _is_whole(text: str) -> bool:
    """Whether the text is a number of something, as `1` and `1e3` are seeds."""
    try:
        whole(text)
    except ValueError:
        return False
    return True


COMMANDS = (*("list", "run", "resume", "watch", "sample", "diagnose", "evaluate", "report", "reference", "completion"),)
plain = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
options = st.sampled_from(
    ["--seed", "--budget", "--set", "-n", "--num", "--steps", "--chains", "--num-samples", "--sed"]
)
bad_changes = st.one_of(
    st.tuples(
        st.sampled_from(
            [
                "seed",
                "budget",
                "training.num_steps",
                "network.width",
                "ladder.hottest",
                "sampling.churn",
                "target.name",
                "method",
                "target.arguments.dim",
                "target.arguments",
                "ladder.temperatures",
                "metrics.num_samples",
                "network",
                "name.x",
                "",
                "a.b",
            ]
        ),
        st.sampled_from(["-1", "nan", "inf", "[1]", "{}", "true", '"x"', "1e999", "[3, 2]", "\u00df", "-0.5"]),
    )
    .filter(lambda change: change not in (("network", "{}"), ("target.arguments", "{}")))  # all as by default: allowed
    .map("=".join),
    plain.filter(lambda text: "=" not in text and not text.startswith("-")),
)
bad_commands = st.one_of(
    plain.filter(lambda text: text not in COMMANDS and not text.startswith("-")).map(lambda word: [word]),
    st.sampled_from(COMMANDS[1:]).map(lambda name: [name]),
    plain.filter(lambda text: text not in PRESETS and not text.startswith("-")).map(
        lambda name: ["run", name, "--out", "new"]
    ),
    st.tuples(
        options,
        st.one_of(
            st.floats(allow_nan=True).map(str).filter(lambda text: not _is_whole(text)),
            words.filter(lambda text: "\0" not in text and not _is_whole(text)),
        ),
    ).map(lambda option: ["run", "mog40", "--out", "new", f"{option[0]}={option[1]}"]),
    bad_changes.map(lambda change: ["run", "mog40", "--out", "new", "--set", change]),
    st.integers(max_value=0).map(lambda budget: ["run", "mog40", "--out", "new", f"--budget={budget}"]),
    st.one_of(st.integers(max_value=-1), st.integers(min_value=2**32)).map(
        lambda seed: ["run", "mog40", "--out", "new", f"--seed={seed}"]
    ),
    st.tuples(
        st.sampled_from(["resume", "watch", "sample", "diagnose", "evaluate", "report"]),
        st.sampled_from(["file", "full", "nowhere"]),
    ).map(list),
    st.tuples(
        st.just("sample"), st.just("full"), st.just("-o"), st.sampled_from(["a.csv", "file", "file/x.npz", "b"])
    ).map(list),
    st.tuples(st.just("sample"), st.just("full"), st.just("-n"), st.integers(max_value=0).map(str)).map(list),
    st.sampled_from(["file", "full", "file/below"]).map(lambda out: ["run", "mog40", "--out", out]),
    plain.filter(lambda text: text not in PRESETS and text not in ("dw4", "lj13", "lj55") and text[:1] != "-").map(
        lambda name: ["reference", name]
    ),
    st.sampled_from([["reference", "dw4", "-n", "0"], ["reference", "lj13", "--steps", "-5"], ["reference", "mog40"]]),
)
