"""`python -m pipeline VERB …`: the same as `sm121-chain VERB …` and `nox -s VERB -- …`."""

import sys

if __name__ == "__main__":
    try:
        from pipeline.cli import main

        status = main()
    except ModuleNotFoundError as missing:
        # The one error that comes before anything that could show it well.
        if (missing.name or "").startswith("pipeline"):
            raise
        print(f"error: this Python has no module {missing.name}", file=sys.stderr)
        print("next: call through nox, or pip install -r requirements/run.txt", file=sys.stderr)
        status = 2
    except KeyboardInterrupt:  # before there was anything to end in order
        status = 130
    sys.exit(status)
