"""The client of one request: who it is, how it is told of progress, and whether its user can be asked."""

import logging
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from torpor.core.messages import By
from torpor.core.text import clean
from torpor.mcp.asking import Given, form_of, read
from torpor.mcp.outcomes import Asked

log = logging.getLogger("torpor.mcp")

TASKS = "io.modelcontextprotocol/tasks"
NAME_KEPT = 100


class Client:
    """What a request's context offers, in our words."""

    def __init__(self, context: ServerRequestContext[Any, Any], verified: str = "") -> None:
        self._context = context
        self._session = context.session
        self._steps = 0
        params = self._session.client_params
        name = clean(params.client_info.name)[:NAME_KEPT] if params is not None else ""
        self.by = By("person", f"mcp:{name}" if name else "mcp", verified=verified)
        self._has = self._session.client_capabilities or types.ClientCapabilities()

    @property
    def is_modern(self) -> bool:
        """It speaks a revision without connections: its user is asked by a result, not by a request."""
        return self._context.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def takes_tasks(self) -> bool:
        """It knows the extension for tasks of the revisions without connections."""
        return self.is_modern and TASKS in (self._has.extensions or {})

    def can_ask(self, asked: Asked) -> bool:
        """Whether its user can be asked this by the client itself."""
        has = self._has.elicitation
        if has is None or not (self.is_modern or self._session.can_send_request):
            return False
        if asked.kind == "authorization":
            return has.url is not None and bool(asked.url)
        return has.form is not None or has.url is None

    async def tell(self, words: str) -> None:
        """Tell how far it has come, if the client wants to know; never fails."""
        self._steps += 1
        try:
            await self._session.report_progress(float(self._steps), None, words)
        except Exception:
            log.debug("progress could not be told", exc_info=True)

    async def ask(self, asked: Asked) -> Given | None:
        """Ask its user now; None: there is no answer."""
        related = self._context.request_id
        try:
            if asked.kind == "authorization":
                await self._session.elicit_url(asked.prompt, asked.url, asked.wait, related)
                return None
            prompt, form = form_of(asked)
            result = await self._session.elicit_form(prompt, form, related)
        except Exception:
            log.info("the client could not ask its user", exc_info=True)
            return None
        return read(asked, result.action, result.content)

    def requests(self, asks: list[Asked]) -> dict[str, Any]:
        """Questions as a result of the revisions without connections carries them."""
        return {one.wait: types.ElicitRequest(params=_params(one)) for one in asks}


def _params(asked: Asked) -> types.ElicitRequestFormParams | types.ElicitRequestURLParams:
    if asked.kind == "authorization":
        return types.ElicitRequestURLParams(message=asked.prompt, url=asked.url, elicitation_id=asked.wait)
    prompt, form = form_of(asked)
    return types.ElicitRequestFormParams(message=prompt, requested_schema=form)
