"""Threads for MCP clients: agents and RAP tool servers, served over standard input and output, or HTTP.

Nothing is kept in a connection. A thread outlives the call that started it, the client, and this process;
whoever has its id may wait for it again.
"""
