"""Objects on the engine whose ids are known: naming one in a request costs no request of its own.

The library asks an object for its id whenever it is an argument; for one that was loaded by its id
that would be a round trip each time.
"""

from __future__ import annotations

import dagger
from dagger import Client


class KnownDirectory(dagger.Directory):
    """A directory with a known id."""

    def __init__(self, client: Client, known: str):
        super().__init__(client.load_directory_from_id(dagger.DirectoryID(known))._ctx)
        self._known = known

    @classmethod
    def _graphql_name(cls) -> str:
        return "Directory"

    async def id(self) -> str:
        """Return the id."""
        return self._known
