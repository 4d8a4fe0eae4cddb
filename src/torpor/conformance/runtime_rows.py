"""What RAP requires of a runtime: number, level, what it does, and why nobody outside sees it.

A last column that begins with '+' names what the runtime must have built for the row to be seen.
"""

ROWS = """
# Discovery and toolsets
RT-01 | MUST | takes tools from the manifest at the well-known path alone |
RT-02 | SHOULD | works with several toolsets side by side |
RT-03 | MUST | checks every manifest on load |
RT-04 | MUST | reports a bad manifest and offers none of its tools |
RT-05 | MUST | offers neither of two tools with one name, and reports it |
RT-06 | MUST | sends each call to the endpoint of its own toolset |
RT-07 | SHOULD | keeps a manifest for the session |
RT-08 | MUST | fetches manifests anew for every session |
RT-09 | SHOULD | goes on with the kept manifest if a fetch fails |
RT-10 | MUST | reports a failed fetch if it kept nothing |
RT-11 | SHOULD | can verify the integrity of a manifest | a pin is a setting of its own
RT-12 | SHOULD | handles descriptions as untrusted |
RT-13 | MUST NOT | lets descriptions change its behaviour |
RT-14 | SHOULD | tells upper from lower case in tool names |
RT-15 | SHOULD | asks a person before a destructive tool | +approvals
# Dispatch
RT-16 | MUST | POSTs one UTF-8 JSON object with a JSON content type |
RT-17 | MUST | dispatches only operations that a toolset defines |
RT-18 | MUST | sends only arguments that conform to the schema |
RT-19 | SHOULD | validates arguments before dispatch, and tells the model why |
RT-20 | MUST | gives each call a unique id |
RT-21 | MUST | supplies a callback_url that takes results |
RT-22 | MUST | puts the current thread's id into group_id |
RT-23 | SHOULD | sends thread_ancestors in children, and leaves it out at the root |
RT-24 | SHOULD | turns refusals and failed connections into error results |
RT-25 | SHOULD | retries after 5xx, ever more slowly |
RT-26 | MUST NOT | retries after 4xx |
RT-27 | MUST | does not read the body of an acknowledgement |
RT-28 | SHOULD | logs each call | its log is not seen from here
RT-29 | MUST | has consent before dispatch | who consented is not seen from here
RT-30 | MUST NOT | gives tools user data that nobody agreed to share |
RT-31 | SHOULD | shows calls for review and approval | +approvals
RT-32 | MUST | treats tools as arbitrary code | a matter for review
# Callbacks
RT-33 | SHOULD | answers a callback with 200 once it is received |
RT-34 | MUST | validates every callback against its type |
RT-35 | MUST | takes a result only if thread and id name one pending call |
RT-36 | MUST NOT | puts an unmatched result into a conversation |
RT-37 | SHOULD | takes a duplicate without effect |
RT-38 | SHOULD | bounds and cleans result text |
RT-39 | SHOULD | authenticates callback URLs |
RT-40 | SHOULD | scopes callback URLs |
RT-41 | SHOULD | documents their lifetime and scope | a matter for review
RT-42 | SHOULD | protects callbacks against replay |
RT-43 | SHOULD | sends credentials with its requests |
RT-44 | SHOULD | refuses plain http off loopback |
RT-45 | SHOULD | limits rate and access of both endpoints | it is not flooded
# Results
RT-46 | MUST | builds the model's result from content, else from text |
RT-47 | MUST | gives the model the full result beside display_as |
RT-48 | MUST NOT | lets display_as change what the model receives |
RT-49 | MUST | copes with plain text |
RT-50 | MUST NOT | sends images to a model that takes none | what its model takes is a setting of its own
RT-51 | SHOULD | replaces images by placeholders in order | what its model takes is a setting of its own
RT-52 | SHOULD | hands display_as to frontends | the link to frontends is outside of the protocol
# Subscriptions
RT-53 | MUST | records a subscription |
RT-54 | MUST | offers cancel_subscription |
RT-55 | MUST | refuses to cancel what is not an active subscription of the thread |
RT-56 | MUST | tells every server of a cancelled subscription, and stops tracking it |
RT-57 | MUST | answers cancel_subscription within the turn |
RT-58 | MUST NOT | attaches an event as another result of its call |
RT-59 | SHOULD | shows an event as a call of a reserved tool |
RT-60 | MUST | keeps the reserved name apart from real tools |
RT-61 | MUST | refuses the model's own call of it |
RT-62 | SHOULD | injects associative events into their thread |
RT-63 | SHOULD | gives other events a child thread each | +children
RT-64 | MUST | removes a subscription on its final event |
RT-65 | MUST | takes events only of active subscriptions of that thread |
RT-66 | SHOULD | bounds the subscriptions of a thread | its bound is a setting of its own
RT-67 | SHOULD | drops events for closed threads |
RT-68 | SHOULD | has agents cancel subscriptions before they end | a matter of its prompts
RT-69 | SHOULD | gives up a subscription that its server has lost | +status
# Authorization
RT-70 | MUST | treats oauth as a deferral | +oauth
RT-71 | MUST | shows the auth_url to the user | +oauth
RT-72 | MUST | keeps the call pending until its result | +oauth
RT-73 | SHOULD | lets the model know that authorization is under way | +oauth
RT-74 | MUST NOT | calls the tool again after authorization | +oauth
RT-75 | MUST NOT | keeps auth_url longer than needed | +oauth
# Choices
RT-76 | MUST | treats user_choice as a deferral | +choices
RT-77 | MUST | shows prompt and choices | +choices
RT-78 | MUST | keeps the call pending until its result | +choices
RT-79 | MUST | POSTs the selection to response_url | +choices
RT-80 | MUST | sends the default on dismissal | +choices
RT-81 | MUST | echoes the id of the prompt | +choices
RT-82 | MUST NOT | calls the tool again after a choice | +choices
RT-83 | MUST NOT | replays an earlier choice | +choices
# Views
RT-84 | MUST | keeps the latest content of each view | +views
RT-85 | MUST | broadcasts view updates | the link to frontends is outside of the protocol
RT-86 | MUST | replays views to new clients | the link to frontends is outside of the protocol
RT-87 | MUST NOT | interprets the content of views | +views
RT-88 | MUST | checks that a view's thread exists | +views
# Closures and cancellations
RT-89 | MUST | tells every server of a closed thread |
RT-90 | SHOULD | sends closures concurrently |
RT-91 | MUST NOT | waits for closures |
RT-92 | MUST NOT | repeats closures |
RT-93 | MUST NOT | lets one failed closure keep back the others |
RT-94 | MUST NOT | relies on closures | what it relies on is not seen from here
RT-95 | MUST | tells of cancelled calls |
RT-96 | SHOULD | tells every server of a cancelled call |
RT-97 | SHOULD | sends cancellations concurrently |
RT-98 | MUST NOT | waits for cancellations |
RT-99 | MUST NOT | repeats cancellations |
RT-100 | MUST NOT | lets one failed cancellation keep back the others |
RT-101 | MUST NOT | relies on cancellations | what it relies on is not seen from here
RT-102 | MUST | is ready for results of cancelled calls |
RT-103 | SHOULD | ignores results of cancelled calls |
RT-104 | SHOULD NOT | uses cancellation to keep in step with servers | a matter for review
# Status checks and recovery
RT-105 | MUST | checks status by POST with a JSON content type | +status
RT-106 | SHOULD | asks on start about every pending call and subscription | +status
RT-107 | SHOULD | asks only the server that got the call | +status
RT-108 | SHOULD | keeps a call that any server may know | whom it may ask is a setting of its own
RT-109 | SHOULD | prunes a call that is not alive | +status
RT-110 | SHOULD | prunes after 4xx or no valid answer | +status
RT-111 | MUST NOT | prunes after transport errors or 5xx | +status
RT-112 | SHOULD | prunes by a failed result or a final event | +status
RT-113 | MUST | tolerates callbacks for pruned calls | +status
RT-114 | SHOULD NOT | expects callbacks of dead calls | what it expects is not seen from here
RT-115 | SHOULD | checks calls concurrently | +status
RT-116 | SHOULD NOT | holds up conversations while it checks | +status
# Migration
RT-117 | MUST | migrates servers that declare it | +migration
RT-118 | MUST NOT | migrates servers that do not | +migration
RT-119 | MUST | keeps the order of a migration | +migration
RT-120 | MUST | goes on only after 200 | +migration
RT-121 | SHOULD | aborts the whole migration on failure | +migration
RT-122 | MAY | cleans up the source by a closure | +migration
# Order, state and time
RT-123 | MUST | processes messages of a thread one at a time |
RT-124 | MUST NOT | goes on if state cannot be loaded | its store cannot be made to fail from here
RT-125 | SHOULD | keeps the message if the model fails |
RT-126 | MUST | signals an error if state cannot be kept | its store cannot be made to fail from here
RT-127 | SHOULD | makes writes idempotent | its store cannot be made to fail from here
RT-128 | SHOULD | answers the user while calls are pending |
RT-129 | MAY | settles a call by a timeout of its own | a permission, not a duty
"""
