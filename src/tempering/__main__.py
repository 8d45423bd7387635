"""`python -m tempering` is `tempering`."""

import sys

from tempering.cli import main

sys.exit(main())
