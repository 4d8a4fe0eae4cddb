"""A contract for import-linter: what a layer may import, and nothing else.

The table of layers in pyproject.toml has one such contract a row. Unlike the contracts that import-linter
brings, it names what is allowed, so that a new package or dependency is refused until somebody decides.
"""

from __future__ import annotations

import sys
from typing import cast

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output
from importlinter.domain.helpers import module_expressions_to_modules
from importlinter.domain.imports import ModuleExpression

STANDARD_LIBRARY = "standard-library"


class MayImport(Contract):
    """The modules of `layer` import directly only themselves and what `may_import` lists.

    A name with dots stands for a module and all below it, one without dots for itself (so that the root of
    the package can be allowed alone), `standard-library` for all of it except what `never` lists. A layer
    that does not exist yet keeps the contract.
    """

    layer = fields.SetField(subfield=fields.ModuleExpressionField())
    may_import = fields.SetField(subfield=fields.StringField())
    never = fields.SetField(subfield=fields.StringField(), required=False, default=frozenset())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002 - its signature
        found: list[str] = []
        for importer in sorted(self._layer_modules(graph)):
            for imported in sorted(graph.find_modules_directly_imported_by(importer)):
                if not self._allowed(imported):
                    found.extend(_rows(graph, importer, imported))
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for row in cast("list[str]", check.metadata["found"]):
            output.print_error(row, bold=False)

    def _layer_modules(self, graph: ImportGraph) -> set[str]:
        tops = module_expressions_to_modules(graph, cast("set[ModuleExpression]", self.layer))
        names = {top.name for top in tops if top.name in graph.modules}
        return names.union(*(graph.find_descendants(name) for name in names))

    def _allowed(self, imported: str) -> bool:
        may_import = cast("set[str]", self.may_import)
        never = cast("set[str]", self.never)
        own = {str(expression) for expression in cast("set[ModuleExpression]", self.layer)}
        if any(_within(imported, name) for name in never):
            return False
        if STANDARD_LIBRARY in may_import and imported.partition(".")[0] in sys.stdlib_module_names:
            return True
        return any(_within(imported, name) for name in may_import | own)


def _within(module: str, package: str) -> bool:
    return module == package or ("." in package and module.startswith(f"{package}."))


def _rows(graph: ImportGraph, importer: str, imported: str) -> list[str]:
    details = graph.get_import_details(importer=importer, imported=imported)
    return [f"{importer} (l.{detail['line_number']}) -> {imported}" for detail in details]
