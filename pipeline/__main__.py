"""`python -m pipeline VERB …`: the same as `sm121-chain VERB …` and `nox -s VERB -- …`."""

import sys

from pipeline.cli import main

if __name__ == "__main__":
    sys.exit(main())
