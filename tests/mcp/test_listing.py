"""Manifests of what MCP servers list."""

import json
from typing import Any

import pytest

from torpor.core.definition import ToolSpec
from torpor.tools.bridged import McpServer
from torpor.tools.catalog import assemble, read_manifest, tools_of
from torpor.tools.mcp.listing import (
    MOST_LISTED_BYTES,
    RESERVED,
    Listing,
    make_listing,
    sign_in_listing,
    weight,
)


def server(**more: Any) -> McpServer:
    return McpServer("srv", command=["x"], **more)


def tool(name: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object"}, **more}


def shown(listing: Listing) -> list[str]:
    return [one["name"] for one in json.loads(listing.manifest)["tools"]]


def wire(listing: Listing, name: str) -> dict[str, Any]:
    return next(one for one in json.loads(listing.manifest)["tools"] if one["name"] == name)


def test_a_manifest_is_taken_by_the_catalogue() -> None:
    one = server()
    listing = make_listing(one, [tool("look", annotations={"readOnlyHint": True}), tool("put")])
    specs = tools_of(listing.manifest, one)
    assert [(spec.name, spec.repeat, spec.server) for spec in specs] == [
        ("look", "safe", "mcp:srv"),
        ("put", "unsafe", "mcp:srv"),
    ]
    assert read_manifest(listing.manifest).hash == listing.hash


def test_the_order_of_the_list_changes_nothing() -> None:
    tools = [
        tool("b"),
        tool("a", inputSchema={"properties": {"x": {}, "a": {}}, "type": "object"}),
        tool("c"),
    ]
    assert make_listing(server(), tools).hash == make_listing(server(), tools[::-1]).hash


def test_names_fit_and_lead_back() -> None:
    names = ["repo.get/all", "repo get/all", "plain", "x" * 200, "ünï", "sleep"]
    listing = make_listing(server(), [tool(name) for name in names])
    assert all(len(name) <= 64 and name.isascii() for name in shown(listing))
    assert sorted(one.name for one in listing.offered.values()) == sorted(names)
    assert len(shown(listing)) == len(names)
    assert listing.offered["plain"].name == "plain"
    assert listing.offered["srv_sleep"].name == "sleep"
    assert not RESERVED & set(shown(listing))
    again = make_listing(server(), [tool(name) for name in reversed(names)])
    assert shown(again) == shown(listing)


def test_a_name_that_fits_keeps_it_when_another_one_becomes_the_same() -> None:
    listing = make_listing(server(), [tool("a.b"), tool("a_b"), tool("a b")])
    assert listing.offered["a_b"].name == "a_b"
    assert len(listing.offered) == 3


def test_a_prefix_goes_before_every_name_and_a_clash_has_another() -> None:
    listing = make_listing(server(prefix="p_"), [tool("a.b")])
    assert shown(listing) == ["p_a_b"]
    assert server().prefixed("search") == "srv_search"
    assert len(server().prefixed("s" * 64)) == 64


def test_of_two_tools_of_one_name_those_of_mcp_servers_give_way() -> None:
    first, second = McpServer("one", command=["x"]), McpServer("two", command=["x"])
    listed = [
        (each, make_listing(each, [tool("search"), tool(f"own_{each.name}")]).manifest)
        for each in (first, second)
    ]
    catalog = assemble((), (), listed)
    assert sorted(catalog.tools) == ["one_search", "own_one", "own_two", "two_search"]
    assert catalog.tools["two_search"].server == "mcp:two"
    assert catalog.problems == ()
    mine = ToolSpec("search", "Mine.", {"type": "object"}, lambda _: [])
    assert sorted(assemble([mine], (), listed[:1]).tools) == ["one_search", "own_one", "search"]
    taken = ToolSpec("one_search", "Mine.", {"type": "object"}, lambda _: [])
    catalog = assemble([mine, taken], (), listed[:1])
    assert sorted(catalog.tools) == ["own_one", "search"]
    assert "both the function one_search and mcp:one define it" in catalog.problems[0]


@pytest.mark.parametrize(
    ("hints", "repeat", "destructive"),
    [
        ({}, "unsafe", False),
        (None, "unsafe", False),
        ([], "unsafe", False),
        ({"readOnlyHint": True}, "safe", False),
        ({"readOnlyHint": True, "destructiveHint": True}, "safe", False),
        ({"idempotentHint": True}, "keyed", False),
        ({"idempotentHint": True, "destructiveHint": True}, "keyed", True),
        ({"destructiveHint": True}, "unsafe", True),
        ({"destructiveHint": False}, "unsafe", False),
        ({"readOnlyHint": "yes", "destructiveHint": 1}, "unsafe", False),
    ],
)
def test_annotations_become_our_marks(hints: Any, repeat: str, destructive: bool) -> None:
    one = server()
    listing = make_listing(one, [tool("t", annotations=hints)])
    [spec] = tools_of(listing.manifest, one)
    assert (spec.repeat, spec.destructive, listing.offered["t"].repeat) == (repeat, destructive, repeat)


def test_the_configuration_wins_over_annotations() -> None:
    one = server(repeat={"a.b": "keyed", "c": "unsafe"}, needs_approval=("a_b",))
    hints = {"readOnlyHint": True}
    listing = make_listing(one, [tool("a.b", annotations=hints), tool("c", annotations=hints)])
    specs = {spec.name: (spec.repeat, spec.destructive) for spec in tools_of(listing.manifest, one)}
    assert specs == {"a_b": ("keyed", True), "c": ("unsafe", False)}


def test_allow_and_deny_and_names_that_no_tool_has() -> None:
    one = server(allow=("a", "b", "gone"), deny=("b",), repeat={"nope": "safe"})
    listing = make_listing(one, [tool("a"), tool("b"), tool("c")])
    assert shown(listing) == ["a"]
    assert listing.problems == (
        "allow names 'gone', but the server has no such tool.",
        "repeat names 'nope', but the server has no such tool.",
    )


DEEP: dict[str, Any] = {"type": "object"}
for _ in range(3_000):
    DEEP = {"type": "object", "properties": {"a": DEEP}}


@pytest.mark.parametrize(
    "schema",
    [
        "text",
        {"type": "string"},
        {"type": "nonsense"},
        {"type": "object", "properties": {"a": {"$ref": "https://elsewhere.test/schema"}}},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
        {"type": "object", "required": [5]},
        {"type": "object", "$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"type": "object", "description": "x" * 200_000},
        DEEP,
    ],
    ids=["text", "string", "nonsense", "elsewhere", "pattern", "required", "circle", "large", "deep"],
)
def test_a_bad_schema_drops_its_tool_only(schema: Any) -> None:
    listing = make_listing(server(), [tool("bad", inputSchema=schema), tool("good")])
    assert shown(listing) == ["good"]
    assert [one for one in listing.problems if "'bad'" in one and "inputSchema" in one]


@pytest.mark.parametrize(
    ("schema", "repaired"),
    [
        (None, {"type": "object", "properties": {}}),
        ({}, {"type": "object"}),
        ({"type": ["object", "null"]}, {"type": "object"}),
        ({"type": "object", "properties": None, "required": None}, {"type": "object", "properties": {}}),
        ({"type": "object", "$schema": "https://unknown.test/draft"}, {"type": "object"}),
        ({"type": "object", "title": "a\ud800"}, {"type": "object", "title": "a\ufffd"}),
    ],
)
def test_a_schema_is_repaired_where_it_is_clear_what_was_meant(schema: Any, repaired: Any) -> None:
    listing = make_listing(server(), [tool("t", inputSchema=schema)])
    assert wire(listing, "t")["inputSchema"] == repaired
    assert listing.problems == ()


def test_entries_that_are_no_tools_are_named() -> None:
    listing = make_listing(
        server(), [5, {}, {"name": 7}, {"name": ""}, tool("a"), tool("a"), tool("b" * 2000)]
    )
    assert shown(listing) == ["a"]
    assert len(listing.problems) == 6


def test_descriptions_are_bounded_and_may_be_missing() -> None:
    listing = make_listing(server(), [tool("a", description="x" * 100_000), tool("b", description=None)])
    assert len(wire(listing, "a")["description"]) < 9_000
    assert wire(listing, "b")["description"] == ""


def test_thousands_of_tools_are_cut_and_it_is_said() -> None:
    one = server()
    listing = make_listing(one, [tool(f"t{number}", description="d" * 7_000) for number in range(600)])
    assert 200 < len(tools_of(listing.manifest, one)) <= 512
    assert "name those to allow, or set wrapped" in listing.problems[0]
    assert set(shown(listing)) == set(listing.offered)


def test_a_wrapped_server_offers_two_tools_of_all() -> None:
    one = server(wrapped=True)
    hints = {"destructiveHint": True}
    listing = make_listing(one, [tool(f"t{n}", annotations=hints if n == 7 else {}) for n in range(600)])
    assert {(spec.name, spec.repeat, spec.destructive) for spec in tools_of(listing.manifest, one)} == {
        ("srv_list_tools", "safe", False),
        ("srv_invoke_tool", "unsafe", True),
    }
    assert listing.offered["t599"].name == "t599"


def test_resources_and_prompts_are_offered_where_wanted_and_there() -> None:
    listing = make_listing(server(resources=True, prompts=True), [tool("a")], resources=True)
    assert shown(listing) == ["srv_list_resources", "srv_read_resource", "a"]
    assert shown(make_listing(server(), [tool("a")], resources=True, prompts=True)) == ["a"]


def test_tasks_are_offered_only_where_the_server_has_them() -> None:
    tools = [tool("t", execution={"taskSupport": "required"}), tool("u", execution={"taskSupport": 5})]
    with_tasks, without = (make_listing(server(), tools, tasks=tasks) for tasks in (True, False))
    assert [one.tasks for one in with_tasks.offered.values()] == ["required", "forbidden"]
    assert {one.tasks for one in without.offered.values()} == {"forbidden"}


def test_a_server_to_sign_in_at_offers_just_that() -> None:
    one = McpServer("srv", url="https://a.test")
    [spec] = tools_of(sign_in_listing(one).manifest, one)
    assert (spec.name, spec.server) == ("srv_sign_in", "mcp:srv")


def test_pages_are_weighed_also_where_they_are_no_json() -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    assert weight([tool("a" * 1_000)]) > 2_000
    assert weight([[]] * 100_000) > 3_000_000
    assert 2 * weight(nested) == 2 * weight([object()]) == MOST_LISTED_BYTES
