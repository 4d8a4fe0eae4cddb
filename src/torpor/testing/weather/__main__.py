"""Run weather: ``python -m torpor.testing.weather --runs 1000 --seed 0``."""

import sys

from torpor.testing.weather.command import main

sys.exit(main())
