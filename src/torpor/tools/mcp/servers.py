"""What configures MCP servers, for those within this package."""

from torpor.tools.bridged import LEAST_RESULT, NAME_LIMIT, SCHEME, McpServer, OAuth, fit_name, is_bridged

__all__ = ["LEAST_RESULT", "NAME_LIMIT", "SCHEME", "McpServer", "OAuth", "fit_name", "is_bridged"]
