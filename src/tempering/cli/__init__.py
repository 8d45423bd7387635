"""The command line. Holds no algorithm; a command imports what it needs, so that help and typos load no JAX.

Refusals exit with code 2 and one line; an interrupted run says how to resume.
"""

import sys

from tempering.cli.parser import parsed
from tempering.errors import TemperingError

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Run a command; the exit code is 0, 1 where a reference did not converge, 2 for a refusal, 130 if interrupted."""
    try:
        command = parsed(sys.argv[1:] if arguments is None else list(arguments))
        code = command()
        sys.stdout.flush()  # here, where a full disk behind it can still be reported
    except TemperingError as error:
        print("tempering:", " ".join(str(error).split()), file=sys.stderr)
        return 2
    except BrokenPipeError:  # `tempering list | head`
        sys.stdout = None
        return 0
    except OSError as error:
        print(f"tempering: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return code or 0
