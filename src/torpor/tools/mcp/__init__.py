"""MCP servers as tool servers: started, supervised, listed and called here.

Nothing in this package loads the MCP SDK before a server is connected to: that takes seconds.
"""
