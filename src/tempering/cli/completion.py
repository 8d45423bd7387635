"""Completion of commands, options, presets and folders in a shell: a script made of the table of commands."""

from tempering.cli.options import COMMANDS, Option
from tempering.lab.catalogue import read

__all__ = ["show_completion"]


def show_completion(shell: str) -> None:
    """Print the script of a shell."""
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](), end="")


def _flags(option: Option) -> list[str]:
    return [name for name in option.names if name.startswith("-")]


def _candidates(option: Option) -> str:
    """What bash's compgen takes to complete a value."""
    if option.values == "folder":
        return "-d"
    if option.values == "file":
        return "-f"
    if option.values == "model":
        return f'-f -W "{" ".join(read())}"'
    return f'-W "{" ".join(option.values)}"' if option.values else ""


def _bash() -> str:
    lines = [
        "# bash completion of tempering; made by `tempering completion bash`",
        "_tempering() {",
        '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" command="${COMP_WORDS[1]}"',
        "  compopt -o filenames 2>/dev/null",
        '  if [ "$COMP_CWORD" -eq 1 ]; then',
        f'    COMPREPLY=($(compgen -W "{" ".join(COMMANDS)} --help --version" -- "$word"))',
        "    return",
        "  fi",
        '  case "$command $before" in',
    ]
    for name, command in COMMANDS.items():
        for option in command.options:
            for flag in _flags(option):
                if option.how.get("action") != "store_true":
                    lines.append(
                        f'    "{name} {flag}") COMPREPLY=($(compgen {_candidates(option)} -- "$word")); return;;'
                    )
    lines += ["  esac", '  case "$command" in']
    for name, command in COMMANDS.items():
        flags = " ".join(flag for option in command.options for flag in _flags(option))
        places = [_candidates(option) for option in command.options if not _flags(option)]
        lines.append(
            f'    {name}) if [[ "$word" == -* ]]; then COMPREPLY=($(compgen -W "{flags} --help" -- "$word"));'
            f' else COMPREPLY=($(compgen {places[0] if places else ""} -- "$word")); fi;;'
        )
    return "\n".join([*lines, "  esac", "}", "complete -F _tempering tempering", ""])


def _zsh() -> str:
    return "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n" + _bash().replace(
        "# bash completion", "# zsh completion", 1
    ).replace("  compopt -o filenames 2>/dev/null\n", "").replace("completion bash`", "completion zsh`")


def _fish() -> str:
    lines = ["# fish completion of tempering; made by `tempering completion fish`", "complete -c tempering -f"]
    for name, command in COMMANDS.items():
        lines.append(f"complete -c tempering -n __fish_use_subcommand -a {name} -d {_quoted(command.about)}")
        where = f"-n '__fish_seen_subcommand_from {name}'"
        for option in command.options:
            flags = _flags(option)
            words = [f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in flags]
            takes = "" if option.how.get("action") == "store_true" or not flags else " -r"
            values = option.values
            if values == "model":
                takes += f" -F -a '{' '.join(read())}'"
            elif isinstance(values, str) and values:
                takes += " -F" if values == "file" else " -a '(__fish_complete_directories)'"
            elif values:
                takes += f" -a '{' '.join(values)}'"
            about = _quoted(str(option.how.get("help", "")))
            lines.append(f"complete -c tempering {where} {' '.join(words)}{takes} -d {about}")
    return "\n".join([*lines, ""])


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
