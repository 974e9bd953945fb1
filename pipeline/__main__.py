"""`python -m pipeline VERB …`: the same as `sm121-chain VERB …` and `nox -s VERB -- …`."""

import sys

if __name__ == "__main__":
    try:
        from pipeline.cli import main

        status = main()
    except KeyboardInterrupt:  # before there was anything to end in order
        status = 130
    sys.exit(status)
