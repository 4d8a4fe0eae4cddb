"""How a server shows that it holds a store's token, without telling it to whoever asks."""

import hashlib
import hmac

CHALLENGE_LIMIT = 100


def proof(token: str, challenge: str) -> str:
    """What only a holder of the token can answer to a challenge; empty without either."""
    if not token or not challenge:
        return ""
    said = b"torpor server\x00" + challenge[:CHALLENGE_LIMIT].encode()
    return hmac.new(token.encode(), said, hashlib.sha256).hexdigest()
