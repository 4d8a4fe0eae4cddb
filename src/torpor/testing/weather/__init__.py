"""Weather: the whole runtime on a simulated clock, network, tool servers, people, model and processes.

One seed is one exact order of everything that happens. Faults strike while the weather lasts; then it clears,
all that is open comes to its end, and it is checked that nothing was lost and nothing done twice. Run it with
``python -m torpor.testing.weather --runs 100``; a seed that fails is printed, and replays exactly.
"""

from torpor.testing.weather.faults import FAULTS, Faults
from torpor.testing.weather.running import Ended, Violation, run
from torpor.testing.weather.world import Weather

__all__ = ["FAULTS", "Ended", "Faults", "Violation", "Weather", "run"]
