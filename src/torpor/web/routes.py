"""All paths of the API: what each takes, gives and means. The application and its description use it."""

from torpor.runtime.deletion import Deleted
from torpor.runtime.explain import Explanation
from torpor.runtime.given import STATES
from torpor.runtime.questions import Settled
from torpor.runtime.threads import Receipt
from torpor.web.openapi import ANY_OBJECT, EVENT_STREAM, NOTHING, PAGE, Endpoint, Parameter
from torpor.web.shapes import (
    Answering,
    Done,
    ForkWanted,
    Found,
    Health,
    Listing,
    NewThread,
    Page,
    Questions,
    Records,
    Saying,
    Started,
    Ticket,
    TicketWanted,
    Views,
)

_STATE = {"enum": list(STATES)}
_WHOLE = {"minimum": 0, "maximum": 2**53}

_KEY = Parameter(
    "Idempotency-Key", "header", "The same key with the same body counts once; another body: 409."
)
_LIMIT = Parameter(
    "limit", "query", "At most so many, up to 1000.", "integer", {"minimum": 1, "maximum": 1000}
)
_AFTER = Parameter("after", "query", "What follows this position.", "integer", _WHOLE)

ROUTES = (
    Endpoint(
        "start", "POST", "/threads", "Start a thread, with its first words if there are any.",
        takes=NewThread, gives={201: Started, 200: Started}, parameters=(_KEY,),
        problems=(400, 409, 413, 415),
    ),
    Endpoint(
        "find", "GET", "/threads", "Threads by id, page by page.",
        gives={200: Listing},
        parameters=(
            Parameter("owner", "query", "Only threads of this owner."),
            Parameter("agent", "query", "Only threads of this agent."),
            Parameter("state", "query", "Only open, parked, stopped or closed ones.", limits=_STATE),
            Parameter("root", "query", "Only the tree of this root, itself included."),
            Parameter("parent", "query", "Only its children; empty: only threads without a parent."),
            Parameter("purpose", "query", "Only root, child, event or compaction; else not the last."),
            Parameter("after", "query", "What follows this thread id."),
            _LIMIT,
        ),
        problems=(400,),
    ),
    Endpoint(
        "get", "GET", "/threads/{thread}", "A thread, and what it waits for.",
        gives={200: Found}, problems=(404,),
    ),
    Endpoint(
        "say", "POST", "/threads/{thread}/messages", "Speak to a thread; durable when this is answered.",
        takes=Saying, gives={202: Receipt}, parameters=(_KEY,), problems=(400, 404, 409, 413, 415, 503),
    ),
    Endpoint(
        "messages", "GET", "/threads/{thread}/messages", "The committed messages after a position.",
        gives={200: Page}, parameters=(_AFTER, _LIMIT), problems=(400, 404),
    ),
    Endpoint(
        "events", "GET", "/threads/{thread}/events",
        "Server-sent events: `message` with its position as id; `text`, `reasoning`, `call`, `started`, "
        "`dropped`, `received`, `view` without one. `started` begins a completion's text anew.",
        gives={200: EVENT_STREAM},
        parameters=(
            _AFTER,
            Parameter("Last-Event-ID", "header", "The same, by browsers; it wins.", "integer", _WHOLE),
            Parameter("ticket", "query", "Instead of the bearer token; see POST /tickets."),
        ),
        problems=(400, 404, 503),
    ),
    Endpoint(
        "stop", "POST", "/threads/{thread}/stop", "Cut what runs; only words or a nudge let it go on.",
        gives={202: Done}, problems=(404, 409, 503),
    ),
    Endpoint(
        "nudge", "POST", "/threads/{thread}/nudge", "Let a parked or stopped thread go on.",
        gives={202: Done}, problems=(404, 409, 503),
    ),
    Endpoint(
        "compact", "POST", "/threads/{thread}/compact",
        "Have the history summed up now, however short it is.",
        gives={202: Done}, problems=(404, 409, 503),
    ),
    Endpoint(
        "close", "POST", "/threads/{thread}/close", "End a thread for good.",
        gives={202: Done}, problems=(404, 409, 503),
    ),
    Endpoint(
        "delete", "DELETE", "/threads/{thread}",
        "Erase a root thread with all below, open or not. `left` says what a search found then: nothing.",
        gives={200: Deleted},
        parameters=(
            Parameter(
                "forks", "query", "`true`: with the forks that continue its history.",
                limits={"enum": ["true", "false"]},
            ),
        ),
        problems=(400, 404, 409, 503),
    ),
    Endpoint(
        "fork", "POST", "/threads/{thread}/fork",
        "Start a root thread that continues this one's history up to a position.",
        takes=ForkWanted, gives={201: Started, 200: Started}, parameters=(_KEY,),
        problems=(400, 404, 409, 413, 415, 503),
    ),
    Endpoint(
        "children", "GET", "/threads/{thread}/children", "Its children, closed ones too, by age.",
        gives={200: Listing}, problems=(404,),
    ),
    Endpoint(
        "waits", "GET", "/threads/{thread}/waits",
        "What people are asked for a thread now: choices, forms, authorizations, approvals.",
        gives={200: Questions}, problems=(404,),
    ),
    Endpoint(
        "answer", "POST", "/waits/{wait}",
        "Answer what a person is asked; the first answer counts. `outcome` is `received` if it is this one.",
        takes=Answering, gives={200: Settled}, problems=(400, 404, 413, 415, 503),
    ),
    Endpoint(
        "views", "GET", "/threads/{thread}/views", "What tool servers show beside it now, by type.",
        gives={200: Views}, problems=(404,),
    ),
    Endpoint(
        "explain", "GET", "/threads/{thread}/explain", "What a thread waits for, and since when.",
        gives={200: Explanation}, problems=(404,),
    ),
    Endpoint(
        "records", "GET", "/threads/{thread}/records", "The records of its slices, oldest first.",
        gives={200: Records},
        parameters=(
            Parameter("after", "query", "Leave out so many of the oldest.", "integer", _WHOLE), _LIMIT,
        ),
        problems=(400, 404),
    ),
    Endpoint(
        "ticket", "POST", "/tickets", "A single-use ticket for the events of one thread, for 60 seconds.",
        takes=TicketWanted, gives={201: Ticket}, problems=(400, 404, 413, 415),
    ),
    Endpoint(
        "callback", "POST", "/callbacks/{token}",
        "What a tool server sends for a call. 200: stored, a repeat, or late. 410: send nothing more for it.",
        takes=ANY_OBJECT, gives={200: NOTHING},
        parameters=(Parameter("webhook-id", "header", "Identifies an event that has no id of its own."),),
        problems=(400, 403, 404, 410, 413, 503), guarded=False,
    ),
    Endpoint(
        "oauth_callback", "GET", "/oauth/callback/{server}",
        "Where a browser comes back to after signing in at an MCP server; a page says what came of it.",
        gives={200: PAGE, 400: PAGE, 410: PAGE, 502: PAGE},
        parameters=(
            Parameter("state", "query", "Which sign-in it was; signed here, and good once."),
            Parameter("code", "query", "What the authorization server gives for it."),
            Parameter("iss", "query", "The authorization server."),
            Parameter("error", "query", "Why it gives nothing."),
        ),
        problems=(404,), guarded=False,
    ),
    Endpoint(
        "oauth_client", "GET", "/oauth/client/{server}",
        "Describes, for authorization servers, the client whose id is this URL.",
        gives={200: ANY_OBJECT}, problems=(400, 404), guarded=False,
    ),
    Endpoint(
        "health", "GET", "/healthz", "The server answers and can read its store.",
        gives={200: Health},
        parameters=(Parameter("challenge", "query", "Answered in `proof` with the token's HMAC."),),
        problems=(503,), guarded=False,
    ),
    Endpoint("openapi", "GET", "/openapi.json", "This description.", gives={200: ANY_OBJECT}),
)  # fmt: skip
