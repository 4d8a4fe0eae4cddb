"""Fuzz one target, guided by coverage: ``python -m tests.fuzz.one TARGET``, and flags of libFuzzer."""

import sys
from importlib import import_module


def main() -> None:
    """Run until the time is over or something is found."""
    atheris = import_module("atheris")  # it has no types, and is not there everywhere
    name, *flags = sys.argv[1:]
    with atheris.instrument_imports(include=["torpor"]):
        from tests.fuzz.bounds import checked
        from tests.fuzz.targets import TARGETS
    target = TARGETS[name]
    atheris.Setup([sys.argv[0], *flags], lambda data: checked(target, data))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
