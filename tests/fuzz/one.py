"""Fuzz one target, guided by coverage: ``python -m tests.fuzz.one TARGET FLAGS...`` as libFuzzer takes them."""

import sys

import atheris


def main() -> None:
    """Run until the time is over or something is found."""
    name, *flags = sys.argv[1:]
    with atheris.instrument_imports(include=["torpor"]):
        from tests.fuzz.bounds import checked
        from tests.fuzz.targets import TARGETS
    target = TARGETS[name]
    atheris.Setup([sys.argv[0], *flags], lambda data: checked(target, data))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
