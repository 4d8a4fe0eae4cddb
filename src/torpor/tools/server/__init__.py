"""The kit for tool authors: decorate functions and serve them over RAP.

server = ToolServer("depots", outbox="depots.db")

@server.tool(read_only=True)
async def stock_level(part: str) -> int:
    \"\"\"Count the units of one part.\"\"\"
    ...

server.run()
"""

from torpor.tools.server.call import Chosen, ToolCall
from torpor.tools.server.content import Content, Diff, Image, Text, ToolError
from torpor.tools.server.kit import ToolServer
from torpor.tools.server.owed import Retry

__all__ = ["Chosen", "Content", "Diff", "Image", "Retry", "Text", "ToolCall", "ToolError", "ToolServer"]
