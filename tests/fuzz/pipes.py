"""What MCP servers write on their output, cut into lines and read as messages."""

from tests.fuzz.bounds import Target
from torpor.tools.mcp.lines import Lines, Noise, Overlong, read_line, too_large

LONGEST = 2_000


def lines(data: bytes) -> None:
    """Output in pieces of any size; what is kept of it stays bounded."""
    cut, noise = Lines(LONGEST), Noise()
    size = (data[:1] or b"\x00")[0] + 1
    body = data[1:]
    found = [line for at in range(0, len(body), size) for line in cut.feed(body[at : at + size])]
    for line in (*found, cut.end()):
        if isinstance(line, Overlong):
            too_large(line.id, LONGEST, line.size)
        else:
            read_line(line, noise)
    assert len(str(noise)) < 2_000


TARGETS = (
    Target(
        "lines",
        lines,
        (
            b'\xff{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a"}]}}\n',
            b'\x09noise\n{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.5}}\n',
            b'\x30{"jsonrpc":"2.0","id":"a","error":{"code":-1,"message":"no"}}\nrest',
        ),
    ),
)
