"""The four errors, each named for what the one who catches it does."""


class TorporError(Exception):
    """Root of the four. Its text is meant for people: what is wrong and what to do."""


class Refused(TorporError):
    """The caller is wrong. Nothing was changed; repeating the same call cannot help."""


class ModelRefused(Refused):
    """A model's provider will not answer this request, however often it is asked.

    ``kind`` says who can cure it: ``quota`` (money or limits), ``auth`` (the key), ``setup`` (the agent's
    settings, its model's options or its script), ``context`` (the request is too long), ``content`` (a
    filter), or ``request`` (anything else about it).
    """

    def __init__(self, text: str, *, kind: str = "request") -> None:
        super().__init__(text)
        self.kind = kind


class Conflict(TorporError):
    """A race was lost: another slice committed first. Forget what was decided and yield."""


class Unavailable(TorporError):
    """The outside is busy or away; the same call may work later.

    ``retry_after`` is the least number of seconds to wait, where the other side named one.
    ``tries`` bounds how often the caller tries in all, where fewer than usual make sense.
    """

    def __init__(self, text: str, *, retry_after: float | None = None, tries: int | None = None) -> None:
        super().__init__(text)
        self.retry_after = retry_after
        self.tries = tries


class Broken(TorporError):
    """We are wrong, or what is stored is: set the thread aside and say so."""
