"""The HTTP side: API, callbacks, live events. Everything but callbacks and health needs the token."""
