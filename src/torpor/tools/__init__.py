"""Tools: Python functions, the protocol of tool servers, and the kit for writing one."""
