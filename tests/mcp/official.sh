#!/bin/sh
# The official MCP servers, and the inspector, for tests/mcp/test_official.py and test_out_inspector.py: `official.sh FOLDER`, then TORPOR_MCP_SERVERS=FOLDER.
set -eu
folder=$1
mkdir -p "$folder"
cd "$folder"
npm install --silent --no-fund --no-audit --prefix . \
    @modelcontextprotocol/server-everything@2026.8.31 \
    @modelcontextprotocol/server-filesystem@2026.8.31 \
    @modelcontextprotocol/server-memory@2026.8.31 \
    @modelcontextprotocol/server-sequential-thinking@2026.8.31 \
    @modelcontextprotocol/inspector@0.15.0
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check \
    'mcp-server-time>=2026.10' 'mcp-server-git>=2026.10' 'mcp-server-fetch>=2026.10'
