"""Fleet and job records as TOML files: read strictly, written one file a record."""

from backends.inventory.load import load
from backends.inventory.model import Inventory, Origin, Pool
from backends.inventory.save import add_node, put_job, remove_job, remove_node

__all__ = ["Inventory", "Origin", "Pool", "add_node", "load", "put_job", "remove_job", "remove_node"]
