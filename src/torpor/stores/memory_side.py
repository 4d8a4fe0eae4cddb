"""Blobs and small values in this process's memory."""

from collections.abc import Callable


class MemorySide:
    """The ``Side`` port, without ``seen``, which asks threads."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._blobs: dict[tuple[str, str], bytes] = {}
        self._blobs_at: dict[tuple[str, str], float] = {}
        self._spaces: dict[str, dict[str, tuple[bytes, float]]] = {}

    async def put_blob(self, thread: str, hash: str, body: bytes) -> None:
        self._blobs.setdefault((thread, hash), bytes(body))
        self._blobs_at.setdefault((thread, hash), self._now())

    def _drop_blob(self, key: tuple[str, str]) -> None:
        del self._blobs[key]
        self._blobs_at.pop(key, None)

    async def get_blob(self, thread: str, hash: str, start: int = 0, size: int = -1) -> bytes | None:
        body = self._blobs.get((thread, hash))
        if body is None:
            return None
        return body[start:] if size < 0 else body[start : start + size]

    async def put(self, space: str, key: str, value: bytes) -> None:
        self._spaces.setdefault(space, {})[key] = (bytes(value), self._now())

    async def put_new(self, space: str, key: str, value: bytes) -> bytes:
        return self._spaces.setdefault(space, {}).setdefault(key, (bytes(value), self._now()))[0]

    async def get(self, space: str, key: str) -> bytes | None:
        return self._spaces.get(space, {}).get(key, (None, 0.0))[0]

    async def entries(self, space: str) -> dict[str, bytes]:
        return {key: value for key, (value, _) in sorted(self._spaces.get(space, {}).items())}

    async def forget(self, space: str, before: float) -> int:
        values = self._spaces.get(space, {})
        old = [key for key, (_, at) in values.items() if at < before]
        for key in old:
            del values[key]
        return len(old)
