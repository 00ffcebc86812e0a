"""`watch install`, `watch uninstall`: the controller as a service of this machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from console.operations.hooks import service as services
from console.operations.hooks.service import Form, Service

if TYPE_CHECKING:
    from console.cli.invocation import Invocation


def install(invocation: Invocation) -> int:
    """Everything that is written is shown first."""
    service, form = _service(invocation), _form(invocation)
    unit = services.unit_path(service)
    if form == "cron":
        place, text = "crontab", "\n".join(services.cron_lines(service))
    else:
        place, text = str(unit), services.unit_text(service)
    lines = [f"write {place}:", *(f"  {line}" for line in text.splitlines())]
    invocation.confirm(2, lines, service.name)
    services.install(service, form, unit)
    document = {
        "schema": "reprieve/service/v1",
        "name": service.name,
        "form": form,
        "path": place,
        "state": "installed",
    }
    look = f"journalctl {'' if os.geteuid() == 0 else '--user '}-u {unit.name}"
    hint = look if form == "systemd" else f"cron starts it within five minutes; its log: {service.log}"
    invocation.emit(document, lambda _document: f"{service.name} is installed ({place}); {hint}")
    return 0


def uninstall(invocation: Invocation) -> int:
    """The reverse; what runs under cron runs on until it is stopped, and the message says so."""
    service, form = _service(invocation, need_program=False), _form(invocation)
    unit = services.unit_path(service)
    place = "crontab" if form == "cron" else str(unit)
    invocation.confirm(2, (f"stop {service.name} and take it out of {place}",), service.name)
    services.uninstall(service, form, unit)
    document = {
        "schema": "reprieve/service/v1",
        "name": service.name,
        "form": form,
        "path": place,
        "state": "removed",
    }
    more = "; one that runs now goes on until you end it" if form == "cron" else ""
    invocation.emit(document, lambda _document: f"{service.name} is gone from {place}{more}")
    return 0


def _form(invocation: Invocation) -> Form:
    form: Form = invocation.arguments.get("form") or services.form_here()
    return form


def _service(invocation: Invocation, *, need_program: bool = True) -> Service:
    context = invocation.context
    typed = invocation.arguments.get("program")
    program = services.program_here(None if typed is None else str(typed)) if need_program else ("reprieve",)
    environment = {name: os.environ[name] for name in services.KEPT if os.environ.get(name)}
    return Service(program, context.name, environment, context.state / "watch.log")
