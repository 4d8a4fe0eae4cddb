"""Bounds of what is served to MCP clients."""

WAIT = 45.0
"""Seconds that a call waits for a reply by default: less than the minute after which many clients give up."""
WAIT_MOST = 3_600.0
"""Seconds that a call may ask to wait."""
WAITING_MOST = 256
"""Calls that wait at once; any more are told at once where their thread stands."""
ANSWER_LEAST = 300.0
"""Seconds that a client's user has for a form, though the call is to wait less."""
HEARTBEAT = 10.0
"""Seconds after which a client that waits is told again where the thread stands."""
RESULT_MOST = 4 * 1024 * 1024
"""Bytes of the text of one result of a RAP tool."""
LISTED_MOST = 200
"""Threads in one list."""
LISTED_FROM = 5_000
"""Threads of one agent that are looked at for a list."""
LINE_MOST = 16 * 1024 * 1024
"""Bytes of one message over standard input."""
BODY_MOST = 16 * 1024 * 1024
"""Bytes of one request over HTTP."""
SESSIONS_MOST = 1_000
"""Connections at once over HTTP, of clients of the older revisions."""
SESSION_IDLE = 1_800.0
"""Seconds after which such a connection that nobody uses is forgotten."""
POLL = 2.0
"""Seconds between two looks at a task that a client is asked to leave."""
FRESH = 30.0
"""Seconds for which the list of a RAP server's tools is not asked for again."""
