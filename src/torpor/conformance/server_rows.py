"""What RAP requires of a tool server: number, level, what it does, and why nobody outside sees it.

The last column is what is reported where no check has looked.
"""

ROWS = """
# Endpoints and manifest
TS-01 | MUST | serves discovery, and takes calls where the manifest says | no manifest was found
TS-02 | MUST | serves both before it takes traffic | it was running already when it was asked
TS-03 | MUST | answers discovery with its whole current toolset | no manifest was found
TS-04 | SHOULD | serves /close_thread and /cancel_tool_call |
TS-05 | SHOULD | serves /tool_call_status if it works asynchronously |
TS-06 | MUST | serves /migrate if it declares needsMigration |
TS-07 | MUST | publishes a manifest of the right shape |
TS-08 | MUST | keeps tool names short and unique |
TS-09 | MUST NOT | uses spaces or special characters in tool names |
TS-10 | SHOULD | uses ASCII names, and tells upper from lower case |
TS-11 | MUST | gives each tool a valid JSON Schema |
TS-12 | SHOULD | uses draft 2020-12 |
TS-13 | SHOULD | forbids properties where a tool takes none |
TS-14 | SHOULD | namespaces annotations of its own |
TS-15 | SHOULD | names the provider in requiresAuth |
TS-16 | MUST | has display scripts that give a string | scripts are not run here
TS-17 | MUST | declares needsMigration if state has to move | only its code tells whether state has to move
TS-18 | MUST | never fails silently for callers with an older manifest |
TS-19 | SHOULD | documents how long its tools take | a matter for review
TS-20 | SHOULD | documents security, and limits access and rate | a matter for review
# Taking a call
TS-21 | MUST | acknowledges at once, before the work is done |
TS-22 | MUST | completes the acknowledgement before any callback |
TS-23 | SHOULD | acknowledges with 200 also what it will refuse |
TS-24 | MUST | checks that the operation is known |
TS-25 | MUST | validates arguments before it uses them |
TS-26 | MUST | reports errors by callback, not by HTTP status |
TS-27 | MUST | controls access where a user decides | whose data is whose is not known here
TS-28 | MAY | inherits state from ancestors | a permission, not a duty
TS-29 | SHOULD | limits the rate of calls | it is not flooded
TS-30 | MUST | keeps concurrent calls apart |
TS-31 | MAY | takes any time, is hosted in any way | a permission, not a duty
# Sending callbacks
TS-32 | MUST | POSTs callbacks as one JSON object with a JSON content type | no callback came
TS-33 | MUST | puts the call's thread into every callback | no callback came
TS-34 | MUST | returns the call's id in results | no callback came
TS-35 | MUST | echoes call_id where one was given |
TS-36 | MUST | uses the defined types of messages, items and segments | no callback came
TS-37 | MUST | brings every call to a result |
TS-38 | MUST | sends failures as ordinary results with the reason as text |
TS-39 | MUST | fills text or content | no result came
TS-40 | SHOULD | gives structured data as JSON text | no result looked structured
TS-41 | SHOULD | begins error texts with 'Error: ' | no error came
TS-42 | SHOULD | says in errors what can be done | a matter for review
TS-43 | SHOULD | keeps traces and internals out of texts | no text came
TS-44 | MUST NOT | returns credentials or tokens | no text came
TS-45 | SHOULD | leads an image with a describing text | no result had an image
TS-46 | SHOULD | follows an image segment by text, and ends with text | no result had an image segment
TS-47 | SHOULD | keeps text segments to about a line | no result had text segments
TS-48 | SHOULD | retries callbacks after 5xx, ever more slowly |
TS-49 | SHOULD NOT | retries callbacks after 4xx |
TS-50 | MUST | uses callback URLs exactly as given |
TS-51 | MUST | keeps callback URLs and ids durably | it cannot be restarted from here
TS-52 | MUST | protects callback URLs as secrets | no text came
TS-53 | MUST NOT | keeps or passes on more user data than needed | a matter for review
TS-54 | SHOULD | keeps unfinished work for recovery | it cannot be restarted from here
TS-55 | SHOULD | asks for credentials, and uses HTTPS off loopback |
# Subscriptions
TS-56 | MUST | confirms a subscription by a result that says so, first |
TS-57 | SHOULD | names a subscription id in the confirmation |
TS-58 | MUST | sends one event for each thing that happens | what happens at its source is not known here
TS-59 | MUST | addresses events to the thread and call that subscribed | no event came
TS-60 | SHOULD | gives structured events as JSON text | no event looked structured
TS-61 | MUST NOT | sends anything after the final event |
TS-62 | MUST NOT | sends events after cancellation |
TS-63 | MUST | verifies the source of events | its source is not known here
TS-64 | SHOULD | limits the rate of events | its source cannot be made to flood it
TS-65 | SHOULD | keeps subscriptions over a restart | it cannot be restarted from here
# Authorization
TS-66 | MUST | asks for authorization before the operation |
TS-67 | MUST | builds a valid authorization URL |
TS-68 | MUST | uses https for authorization |
TS-69 | MUST | exchanges codes and keeps tokens by user | no provider is at hand
TS-70 | MUST | repeats the operation after authorization | nobody authorizes here
TS-71 | MUST | sends an error result if authorization fails | nobody authorizes here
TS-72 | MUST NOT | waits for authorization for ever | the wait may be long; see its documentation
TS-73 | MUST | verifies the state of an authorization | no provider is at hand
TS-74 | MUST NOT | shows codes or tokens of a provider | no provider is at hand
TS-75 | SHOULD | asks for the least scopes | a matter for review
TS-76 | SHOULD | keeps tokens durably, by user, encrypted | no provider is at hand
TS-77 | SHOULD | refreshes tokens | no provider is at hand
# Choices
TS-78 | MUST | asks for a choice before the operation |
TS-79 | MUST | offers choices with a valid default |
TS-80 | MUST | points response_url at an endpoint of its own |
TS-81 | MUST | acts on the choice, and sends a result |
TS-82 | MUST NOT | waits for a choice for ever | the wait may be long; see its documentation
TS-83 | MUST | sends an error result for an invalid selection |
TS-84 | SHOULD | remembers lasting decisions by itself | which choice lasts is not known here
TS-85 | SHOULD | uses a loopback response_url when it runs locally |
TS-86 | MUST | labels choices honestly | a matter for review
TS-87 | SHOULD | asks for the least permission | a matter for review
# Views
TS-88 | MUST | sends view updates to the thread that owns the view | no view update came
TS-89 | SHOULD | updates views after operations that change them | which operations do is not known here
TS-90 | MUST NOT | sends views without content | no view update came
TS-91 | SHOULD | clears a view that became empty | what a view shows is not known here
# Closures
TS-92 | MUST | answers a closure with 200, whether it acts or not |
TS-93 | SHOULD | answers a closure at once, and cleans up afterwards |
TS-94 | MUST | works without a closure, and with one that comes early |
TS-95 | SHOULD | takes repeated closures calmly |
TS-96 | MUST | takes closures of threads that it does not know |
TS-97 | SHOULD NOT | depends on closures alone | its clock cannot be moved from here
TS-98 | MUST | asks for credentials with a closure |
TS-99 | MUST NOT | tells a thread's state in the answer to a closure |
TS-100 | SHOULD | limits the rate of closures | it is not flooded
TS-101 | MUST | treats thread_id as untrusted |
# Cancellations
TS-102 | MUST | answers a cancellation with 200, whatever it finds |
TS-103 | MAY | aborts the operation | a permission, not a duty
TS-104 | MUST | copes with a cancellation after the end, and with none |
TS-105 | SHOULD | takes repeated cancellations calmly |
TS-106 | MUST NOT | concludes from a cancellation what was delivered | what it concludes is not seen
TS-107 | SHOULD NOT | depends on cancellation alone | its clock cannot be moved from here
TS-108 | MUST | asks for credentials with a cancellation |
TS-109 | MUST NOT | tells a call's state in the answer to a cancellation |
TS-110 | SHOULD | limits the rate of cancellations | it is not flooded
TS-111 | MUST | treats both ids of a cancellation as untrusted |
# Status checks
TS-112 | MUST | answers a status check with {"alive": bool} |
TS-113 | MUST | says false for calls that it does not know |
TS-114 | MUST NOT | changes anything because of a status check |
TS-115 | MUST NOT | infers from a status check what was delivered |
TS-116 | MUST | asks for credentials with a status check |
TS-117 | MUST | treats both ids of a status check as untrusted |
TS-118 | MUST NOT | tells anything but the boolean |
TS-119 | SHOULD | limits the rate of status checks | it is not flooded
TS-120 | SHOULD | says true while a subscription is active |
# Migration
TS-121 | MUST | finishes a migration before it answers 200 |
TS-122 | MUST | answers a failed migration with 4xx or 5xx |
TS-123 | MUST | checks that the destination can be reached first |
TS-124 | SHOULD NOT | puts credentials into migrations |
"""
