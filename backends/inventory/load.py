"""Reading a fleet: one TOML file with what was added beside it, or a directory of TOML files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from backends.errors import UsageError
from backends.ids import check_name
from backends.inventory import fields
from backends.inventory.document import Document, read_document
from backends.inventory.model import Inventory, Kind, Origin, Renting
from backends.inventory.values import argv, url

TOP = ("fleet", "nodes", "jobs", "pools")
FLEET = ("store", "notices", *fields.RENTING_KEYS)
_READERS = {"nodes": fields.read_node, "jobs": fields.read_job, "pools": fields.read_pool}


def records_directory(fleet: Path) -> Path:
    """Where records are added: the fleet's directory, or `<file>.d` beside a single file."""
    if fleet.is_dir() or fleet.suffix != ".toml":
        return fleet
    return fleet.with_name(fleet.name + ".d")


def files_of(fleet: Path) -> tuple[Path, ...]:
    """Every file that makes up the fleet, in order; empty when there is none yet."""
    found = [fleet] if fleet.is_file() else []
    directory = records_directory(fleet)
    if directory.is_dir():
        found += sorted(
            path
            for path in directory.rglob("*.toml")
            if path.is_file() and not any(part.startswith(".") for part in path.relative_to(directory).parts)
        )
    return tuple(found)


def load(fleet: Path) -> Inventory:
    """Read the fleet at `fleet` (a file or a directory; absent means empty).

    Raises:
        UsageError: naming file and line of the first thing wrong: TOML, unknown key, value, name,
            a record described twice.
    """
    if fleet.is_file() and fleet.suffix != ".toml":
        raise UsageError(
            f"{fleet}: a fleet is a .toml file or a directory of them; other formats are not read"
        )
    records: dict[str, dict[str, Any]] = {"nodes": {}, "jobs": {}, "pools": {}}
    origins: dict[tuple[Kind, str], Origin] = {}
    store: str | None = None
    renting: dict[str, Any] = {}
    limits: Document | None = None
    notices: list[str] = []
    files = files_of(fleet)
    documents = [read_document(path) for path in files]
    for document in documents:
        for key in document.data:
            if key not in TOP:
                raise document.unknown((key,), TOP)
        store = _store(document, store)
        notices += _notices(document)
        limits = document if _renting(document, renting) else limits
        for kind in ("nodes", "jobs", "pools"):
            _collect(document, kind, records[kind], origins, records_directory(fleet))
    return Inventory(
        nodes=dict(sorted(records["nodes"].items())),
        jobs=dict(sorted(records["jobs"].items())),
        pools=dict(sorted(records["pools"].items())),
        store=store,
        renting=_build_renting(limits, renting),
        notices=tuple(dict.fromkeys(notices)),
        origins=origins,
        files=files,
    )


def _store(document: Document, known: str | None) -> str | None:
    section = document.table("fleet")
    for key in section:
        if key not in FLEET:
            raise document.unknown(("fleet", key), FLEET)
    if "store" not in section:
        return known
    try:
        store = url(section["store"])
    except ValueError as error:
        raise document.error(f"store: {error}", "fleet", "store") from None
    if known is not None and known != store:
        raise document.error(f"the fleet's store is given twice: {known!r} and {store!r}", "fleet", "store")
    return store


def _notices(document: Document) -> list[str]:
    """The queues of one file."""
    try:
        return list(argv(document.table("fleet").get("notices", [])))
    except ValueError as error:
        raise document.error(f"notices: {error}", "fleet", "notices") from None


def _renting(document: Document, known: dict[str, Any]) -> bool:
    """Take the renting keys of one file into `known`; whether it has any."""
    section = document.table("fleet")
    found = {}
    for key, rule in fields.RENTING_KEYS.items():
        if key not in section:
            continue
        try:
            found[key] = rule.read(section[key])
        except ValueError as error:
            raise document.error(f"{key}: {error}", "fleet", key) from None
        if known.get(key, found[key]) != found[key]:
            raise document.error(
                f"the fleet's {key} is given twice: {known[key]} and {found[key]}", "fleet", key
            )
    known.update(found)
    return bool(found)


def _build_renting(document: Document | None, found: dict[str, Any]) -> Renting:
    try:
        return Renting(**found)
    except ValueError as error:
        raise (document.error(str(error), "fleet") if document else UsageError(str(error))) from None


def _collect(
    document: Document,
    kind: Kind,
    records: dict[str, Any],
    origins: dict[tuple[Kind, str], Origin],
    directory: Path,
) -> None:
    for name in document.table(kind):
        if kind != "pools":
            try:
                check_name(kind.removesuffix("s"), name)
            except UsageError as error:
                raise document.error(str(error), kind, name) from None
        record = _READERS[kind](document, name)
        if name in records:
            raise document.error(
                f"{kind.removesuffix('s')} {name!r} is described twice: also in {origins[kind, name]}",
                kind,
                name,
            )
        records[name] = record
        ours = document.path == directory / kind / f"{name}.toml" and _only(document, kind, name)
        origins[kind, name] = Origin(document.path, document.line(kind, name), ours)


def _only(document: Document, kind: str, name: str) -> bool:
    """Whether a file holds this record and nothing else, not even a comment of a person's."""
    return document.data.keys() == {kind} and document.data[kind].keys() == {name} and MARK in document.text


MARK = "# Written by reprieve"
