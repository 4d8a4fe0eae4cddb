"""The contract names what a layer may import, and refuses the rest."""

from __future__ import annotations

import grimp
import pytest

from scripts.import_contracts import MayImport


def contract(**options: list[str]) -> MayImport:
    return MayImport("a row of the table", {"root_packages": ["shop"]}, dict(options))


@pytest.fixture
def graph() -> grimp.ImportGraph:
    made = grimp.ImportGraph()
    for name in ("shop", "shop.core", "shop.core.plan", "shop.web", "shop.webshop"):
        made.add_module(name)
    for name in ("msgspec", "json", "time", "flask"):
        made.add_module(name, is_squashed=True)
    return made


def imports(graph: grimp.ImportGraph, importer: str, imported: str) -> None:
    graph.add_import(importer=importer, imported=imported, line_number=7, line_contents=f"import {imported}")


def found(row: MayImport, graph: grimp.ImportGraph) -> list[str]:
    check = row.check(graph, verbose=False)
    rows: list[str] = check.metadata["found"]
    assert check.kept == (not rows)
    return rows


def test_what_is_listed_is_allowed_for_all_modules_of_the_layer(graph: grimp.ImportGraph) -> None:
    imports(graph, "shop.core.plan", "msgspec")
    imports(graph, "shop.core.plan", "json")
    imports(graph, "shop.core.plan", "shop.core")
    row = contract(layer=["shop.core"], may_import=["standard-library", "msgspec"])
    assert found(row, graph) == []


def test_another_package_is_refused_with_its_line(graph: grimp.ImportGraph) -> None:
    imports(graph, "shop.core.plan", "flask")
    imports(graph, "shop.core", "shop.web")
    row = contract(layer=["shop.core"], may_import=["standard-library"])
    assert found(row, graph) == ["shop.core (l.7) -> shop.web", "shop.core.plan (l.7) -> flask"]


def test_a_banned_part_of_the_standard_library_is_refused(graph: grimp.ImportGraph) -> None:
    imports(graph, "shop.core.plan", "time")
    row = contract(layer=["shop.core"], may_import=["standard-library"], never=["time"])
    assert found(row, graph) == ["shop.core.plan (l.7) -> time"]


def test_a_name_that_only_starts_alike_is_not_the_package(graph: grimp.ImportGraph) -> None:
    imports(graph, "shop.core", "shop.webshop")
    row = contract(layer=["shop.core"], may_import=["shop.web"])
    assert found(row, graph) == ["shop.core (l.7) -> shop.webshop"]


def test_the_root_of_the_package_can_be_allowed_alone(graph: grimp.ImportGraph) -> None:
    imports(graph, "shop.web", "shop")
    imports(graph, "shop.web", "shop.core.plan")
    row = contract(layer=["shop.web"], may_import=["shop"])
    assert found(row, graph) == ["shop.web (l.7) -> shop.core.plan"]


def test_a_layer_that_does_not_exist_yet_keeps_the_contract(graph: grimp.ImportGraph) -> None:
    assert found(contract(layer=["shop.runtime"], may_import=[]), graph) == []
