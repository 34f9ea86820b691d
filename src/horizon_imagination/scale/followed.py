"""A store that another process writes: read anew whenever its writer says so."""

from horizon_imagination.data import Store
from horizon_imagination.data.layout import read_description


class FollowedStore(Store):
    """The replay of a run as the ranks see it that do not collect."""

    def follow(self) -> None:
        """Take over all rows that are safe on the disk by now."""
        version = self.version
        self.close()
        self.__init__(self.folder, read_description(self.folder), writable=False)
        self.version = version + 1
