"""All of one run: its disk, processes, network, servers and people."""

from collections.abc import Collection

from torpor.testing.weather.agents import agent_of
from torpor.testing.weather.network import Network
from torpor.testing.weather.people import People
from torpor.testing.weather.servers import SERVERS, Server
from torpor.testing.weather.sky import Sky


class Weather(Sky):
    """The simulated world of one seed. ``without``: kinds of faults that never strike."""

    people: People

    def __init__(self, seed: int, without: Collection[str] = ()) -> None:
        super().__init__(seed, without)
        self.network = Network(self)
        self.servers = {url: Server(self, url) for url in SERVERS}
        self.agents = [agent_of(self)]
        self.people = People(self)
