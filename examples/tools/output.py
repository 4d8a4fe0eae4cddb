"""Output of a program, gathered as text of bounded size."""

import codecs


class Output:
    """Keeps the head and the tail of what is fed to it, `most` characters together."""

    def __init__(self, most: int) -> None:
        self._half = most // 2
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.clear()

    def clear(self) -> None:
        """Forget what was gathered; a character split between reads is still put together."""
        self._head = ""
        self._tail = ""
        self._dropped = 0

    def feed(self, chunk: bytes, *, last: bool = False) -> None:
        """Add bytes; what is not UTF-8 becomes U+FFFD."""
        text = self._decoder.decode(chunk, last)
        room = self._half - len(self._head)
        self._head += text[:room]
        tail = self._tail + text[room:]
        self._dropped += max(len(tail) - self._half, 0)
        self._tail = tail[-self._half :]

    def __bool__(self) -> bool:
        return bool(self._head)

    def text(self) -> str:
        """What was kept, with a line that says how much was not."""
        if not self._dropped:
            return self._head + self._tail
        return f"{self._head}\n[{self._dropped} characters left out]\n{self._tail}"
