"""The gate: may this save be brought back on that node?

Pure: a save's fingerprint against a node's facts, one row a property, each refusal with both values. What is
unknown on either side is said and never counts as fine. The reasons are CRIU's and cuda-checkpoint's own limits.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from backends.errors import UsageError
from backends.records.facts import Facts, FileIdentity, Gpu
from backends.records.fingerprint import Fingerprint
from backends.versions import numbers, older

Verdict = Literal["ok", "warn", "refuse"]

# Engines whose saves are programs' own files: no memory image is put back.
SELF_SAVED = frozenset({"signal", "fake"})
PROPERTIES = (
    "arch", "cpu_features", "kernel", "criu", "criu_ready", "privileges", "gpu_model", "gpu_count", "gpu_mig",
    "driver", "cuda_checkpoint", "gpu_memory", "memory", "disk", "libc", "files", "runtime", "os", "cgroup", "lsm",
)  # fmt: skip
# Nothing an operator says makes these work.
FIRM = frozenset({"arch", "criu_ready", "gpu_model"})
# Flags of /proc/cpuinfo that stand for instructions or state a program may use (x86); the others are the kernel's.
_X86 = re.compile(
    r"(fpu|cx8|cx16|cmov|mmx|mmxext|fxsr|fxsr_opt|sse\w*|pni|ssse3|misalignsse|popcnt|pclmulqdq|fma4?|movbe|aes|"
    r"xsave\w*|xgetbv1|avx\w*|f16c|rdrand|rdseed|adx|bmi[12]|abm|tbm|xop|lahf_lm|erms|fsrm|fzrm|fsrc|fsrs|sha_ni|sha\d+|"
    r"sm[34]|clflush|clflushopt|clwb|clzero|3dnow\w*|rdpid|rdtscp|gfni|vaes|vpclmulqdq|amx_\w+|rtm|hle|mpx|pku|ospke|"
    r"movdiri|movdir64b|serialize|cldemote|waitpkg|enqcmd|fsgsbase|mwaitx|user_shstk|lwp|cmpccxadd|raoint)\Z"
)
_CRIU_FOR_KERNEL = (("6.16", "4.2"), ("6.13", "4.1"))  # kernels from … need CRIU from … (criu issue 2532)
_LABELLING = frozenset({"apparmor", "selinux", "smack", "tomoyo"})
_LISTED = 6  # differences named in one message


@dataclass(frozen=True)
class Row:
    """One property: what the save needs, what the node has, and what follows."""

    property: str
    verdict: Verdict
    message: str  # one sentence for people
    saved: str | None = None  # None: unknown
    here: str | None = None
    known: bool = True  # False: one of the two sides is unknown
    overridable: bool = False
    overridden: str | None = None  # the operator's reason, where a refusal was set aside


@dataclass(frozen=True)
class GateResult:
    """All rows, in a fixed order."""

    rows: tuple[Row, ...]

    @property
    def fits(self) -> bool:
        """Whether nothing refuses."""
        return not self.refusals

    @property
    def refusals(self) -> tuple[Row, ...]:
        """The rows that refuse."""
        return tuple(row for row in self.rows if row.verdict == "refuse")

    @property
    def warnings(self) -> tuple[Row, ...]:
        """The rows to be read before one goes on: warnings, unknowns and overridden refusals."""
        return tuple(row for row in self.rows if row.verdict == "warn")

    @property
    def overridden(self) -> dict[str, str]:
        """Property → reason of every refusal that was set aside, for the record."""
        return {row.property: row.overridden for row in self.rows if row.overridden is not None}

    def summary(self) -> str:
        """One line: fits, or the first refusal and how many more."""
        refused = self.refusals
        if not refused:
            return f"fits, with {len(self.warnings)} warnings" if self.warnings else "fits"
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        return f"{refused[0].message}{more}"


def gate(
    fingerprint: Fingerprint,
    facts: Facts,
    *,
    overrides: dict[str, str] | None = None,
    declared: dict[str, str] | None = None,
) -> GateResult:
    """Compare a save's fingerprint with a node's facts.

    Args:
        fingerprint: from the manifest.
        facts: of the node, looked at now.
        overrides: property → reason; sets a refusal aside where that can help.
        declared: versions the operator declares for this node or job now, for the save's `runtime`.

    Raises:
        UsageError: an override names no property, has no reason, or cannot help (`arch`, `criu_ready`, `gpu_model`).
    """
    given = overrides or {}
    check_overrides(given)
    sheet = _Sheet(given)
    self_saved = fingerprint.engine in SELF_SAVED
    _arch(sheet, fingerprint, facts)
    if not self_saved:
        _cpu(sheet, fingerprint, facts)
        _kernel(sheet, fingerprint, facts)
        _criu(sheet, fingerprint, facts)
        _privileges(sheet, facts)
    _gpus(sheet, fingerprint, facts, self_saved)
    _room(sheet, fingerprint, facts)
    if not self_saved:
        _libc(sheet, fingerprint, facts)
        _files(sheet, fingerprint, facts)
    _runtime(sheet, fingerprint, {**facts.runtime, **(declared or {})})
    if not self_saved:
        _surroundings(sheet, fingerprint, facts)
    return GateResult(tuple(sheet.rows))


def check_overrides(given: dict[str, str]) -> None:
    """Raise UsageError unless every property of `given` can be set aside and has a reason."""
    for name, reason in given.items():
        if name not in PROPERTIES:
            raise UsageError(f"override of {name!r}: not one of {', '.join(PROPERTIES)}")
        if name in FIRM:
            raise UsageError(f"override of {name!r}: this cannot be set aside, the restore would fail")
        if not reason.strip():
            raise UsageError(f"override of {name!r}: a reason is needed; it is kept in the record")


class _Sheet:
    """Rows under construction."""

    def __init__(self, overrides: dict[str, str]) -> None:
        self.rows: list[Row] = []
        self._overrides = overrides

    def add(
        self,
        name: str,
        verdict: Verdict,
        message: str,
        saved: str | None,
        here: str | None,
        *,
        known: bool = True,
    ) -> None:
        """One row; a refusal that the operator set aside becomes a warning with the reason."""
        overridable = verdict == "refuse" and name not in FIRM
        reason = self._overrides.get(name) if overridable else None
        if reason is not None:
            verdict, message = "warn", f"{message}; set aside: {reason}"
        self.rows.append(Row(name, verdict, message, saved, here, known, overridable, reason))

    def unknown(self, name: str, label: str, verdict: Verdict, saved: str | None, here: str | None) -> None:
        """One side or both cannot be told."""
        if saved is None and here is None:
            message = f"{label}: unknown in the save and on this node; whether they agree cannot be told"
        elif saved is None:
            message = f"{label}: unknown in the save, {here} on this node; whether they agree cannot be told"
        else:
            message = f"{label}: {saved} in the save, unknown on this node; whether they agree cannot be told"
        self.add(name, verdict, message, saved, here, known=False)

    def equal(self, name: str, label: str, saved: str | None, here: str | None, *, differs: Verdict, unknown: Verdict,
              advice: str = "") -> None:  # fmt: skip
        """Two texts that must be the same."""
        if saved is None or here is None:
            self.unknown(name, label, unknown, saved, here)
        elif saved == here:
            self.add(name, "ok", f"{label}: {here}, as in the save", saved, here)
        else:
            self.add(name, differs, f"{label}: {saved} in the save, {here} on this node{advice}", saved, here)


def _arch(sheet: _Sheet, saved: Fingerprint, here: Facts) -> None:
    sheet.equal("arch", "processor architecture", saved.arch, here.arch, differs="refuse", unknown="refuse")


def _cpu(sheet: _Sheet, saved: Fingerprint, here: Facts) -> None:
    label = "CPU features"
    if saved.cpu_flags is None or here.cpu_flags is None:
        shown = [
            None if flags is None else f"{len(flags)} flags" for flags in (saved.cpu_flags, here.cpu_flags)
        ]
        sheet.unknown("cpu_features", label, "refuse", shown[0], shown[1])
        return
    missing = sorted(set(saved.cpu_flags) - set(here.cpu_flags))
    if saved.arch in ("x86_64", "i686", None):
        missing = [flag for flag in missing if _X86.match(flag)]
    saved_cpu, here_cpu = saved.cpu_model or "its CPU", here.cpu_model or "this node's CPU"
    if missing:
        named = _list(missing)
        sheet.add(
            "cpu_features", "refuse",
            f"{label}: the save's CPU ({saved_cpu}) has {named}, this node's ({here_cpu}) has not; "
            f"the program may die of an illegal instruction",
            named, f"without {named}",
        )  # fmt: skip
    else:
        sheet.add(
            "cpu_features", "ok", f"{label}: this node has all that the save's CPU had", saved_cpu, here_cpu
        )


def _kernel(sheet: _Sheet, saved: Fingerprint, here: Facts) -> None:
    _not_older(
        sheet, "kernel", "kernel", saved.kernel, here.kernel, "choose a node with the same or a newer kernel"
    )


def _not_older(
    sheet: _Sheet, name: str, label: str, saved: str | None, here: str | None, advice: str
) -> None:
    """Older than the source refuses, newer warns, equal numbers with another text warn."""
    before = None if saved is None or here is None else older(here, saved)
    if saved is None or here is None or before is None:
        sheet.unknown(name, label, "refuse", saved, here)
    elif before:
        message = f"{label}: {saved} in the save, {here} on this node, which is older; {advice}"
        sheet.add(name, "refuse", message, saved, here)
    elif saved == here:
        sheet.add(name, "ok", f"{label}: {here}, as in the save", saved, here)
    else:
        word = "newer" if older(saved, here) else "another build of the same version"
        sheet.add(
            name,
            "warn",
            f"{label}: {saved} in the save, {here} on this node, {word}: mostly works",
            saved,
            here,
        )


def _criu(sheet: _Sheet, saved: Fingerprint, here: Facts) -> None:
    advice = "`reprieve fleet install` brings a newer one"
    if here.criu.path is None and here.criu.version is None:
        message = f"CRIU: {saved.criu or 'some version'} in the save, none on this node; {advice}"
        sheet.add("criu", "refuse", message, saved.criu, "none")
    else:
        _not_older(sheet, "criu", "CRIU", saved.criu, here.criu.version, advice)
    reason = here.criu.reason or "no reason given"
    needed = _criu_needed(here.kernel)
    shown = f"CRIU {here.criu.version or 'of unknown version'} on kernel {here.kernel or 'unknown'}"
    if here.criu.ready:
        sheet.add(
            "criu_ready",
            "ok",
            f"CRIU works here: {shown} saved and restored a trial process",
            "works",
            "works",
        )
    elif here.criu.ready is False:
        sheet.add(
            "criu_ready", "refuse", f"CRIU does not work here: {shown}: {reason}", "works", "does not work"
        )
    elif needed is not None and here.criu.version is not None and older(here.criu.version, needed):
        message = f"CRIU is too old here: {shown}, at least {needed} is needed; {advice}"
        sheet.add("criu_ready", "refuse", message, needed, here.criu.version)
    else:
        message = f"whether CRIU works here is unknown: {shown}: {reason}"
        sheet.add("criu_ready", "warn", message, "works", None, known=False)


def _criu_needed(kernel: str | None) -> str | None:
    for since, needed in _CRIU_FOR_KERNEL:
        if numbers(kernel) is not None and older(kernel or "", since) is False:
            return needed
    return None


def _privileges(sheet: _Sheet, here: Facts) -> None:
    label = "privileges"
    if here.uid is None and here.capabilities is None:
        sheet.unknown("privileges", label, "warn", "root", None)
    elif here.uid == 0 or (
        here.capabilities and {"cap_sys_admin", "cap_checkpoint_restore"} & set(here.capabilities)
    ):
        sheet.add("privileges", "ok", f"{label}: the guard may restore processes", "root", f"user {here.uid}")
    else:
        message = f"{label}: restoring memory needs root, the guard on this node runs as user {here.uid}"
        sheet.add("privileges", "refuse", message, "root", f"user {here.uid}")


def _gpus(sheet: _Sheet, saved: Fingerprint, here: Facts, self_saved: bool) -> None:
    if saved.gpus == ():
        return
    differs: Verdict = "warn" if self_saved else "refuse"
    if saved.gpus is None or here.gpus is None:
        why = f" ({here.gpu_reason})" if here.gpus is None and here.gpu_reason else ""
        shown = None if saved.gpus is None else _models(saved.gpus)
        sheet.unknown(
            "gpu_model",
            f"GPU{why}",
            differs,
            shown,
            None if here.gpus is None else _models(here.gpus) or "none",
        )
        return
    models = [
        None if any(gpu.model is None for gpu in group) else _models(group)
        for group in (saved.gpus, here.gpus)
    ]
    kinds = [None if text is None else ", ".join(sorted({str(gpu.model) for gpu in group})) or "none"
             for text, group in zip(models, (saved.gpus, here.gpus), strict=True)]  # fmt: skip
    if kinds[0] is not None and kinds[0] == kinds[1]:  # one name is sold with several memory sizes
        kinds = _told_apart(kinds, saved.gpus, here.gpus)
    sheet.equal("gpu_model", "GPU model", kinds[0], kinds[1], differs=differs, unknown=differs,
                advice="; this needs a cold start")  # fmt: skip
    counts = [str(len(saved.gpus)), str(len(here.gpus))]
    sheet.equal("gpu_count", "GPU count", counts[0], counts[1], differs=differs, unknown=differs)
    if not self_saved:
        _mig(sheet, saved.gpus, here.gpus)
        sheet.equal("driver", "GPU driver", saved.driver, here.driver, differs="refuse", unknown="refuse",
                    advice="; library file names carry the full version")  # fmt: skip
        _cuda_checkpoint(sheet, saved, here)
    _gpu_memory(sheet, saved, here.gpus, differs)


def _cuda_checkpoint(sheet: _Sheet, saved: Fingerprint, here: Facts) -> None:
    """What it can do is the driver's, which must be equal; an older program lacks the options to ask for it."""
    label, advice = "cuda-checkpoint", "install the program that comes with the save's driver"
    before, now = saved.cuda_checkpoint, here.cuda_checkpoint
    if here.tools.get(label, "") is None:
        message = f"{label}: {before or 'some version'} in the save, none on this node; {advice}"
        sheet.add("cuda_checkpoint", "refuse", message, before, "none")
    elif before is None or now is None or older(now, before) is None:
        sheet.unknown("cuda_checkpoint", label, "warn", before, now)
    else:
        _not_older(sheet, "cuda_checkpoint", label, before, now, advice)


def _told_apart(kinds: list[str | None], saved: tuple[Gpu, ...], here: tuple[Gpu, ...]) -> list[str | None]:
    """The same names with memory size or compute capability behind them, where those are known and differ."""

    def sizes(group: tuple[Gpu, ...]) -> set[str] | None:
        known = {gpu.memory_bytes for gpu in group}
        return None if None in known else {_size(size) for size in known if size is not None}

    def capabilities(group: tuple[Gpu, ...]) -> set[str] | None:
        known = {gpu.compute_capability for gpu in group}
        return None if None in known else {f"compute capability {one}" for one in known}

    for read in (sizes, capabilities):
        before, now = read(saved), read(here)
        if before is not None and now is not None and before != now:
            return [f"{kinds[0]} ({_list(sorted(before))})", f"{kinds[1]} ({_list(sorted(now))})"]
    return kinds


def _models(gpus: tuple[Gpu, ...]) -> str:
    counted = Counter(gpu.model or "unknown model" for gpu in gpus)
    return ", ".join(f"{count}x {model}" for model, count in sorted(counted.items()))


def _mig(sheet: _Sheet, saved: tuple[Gpu, ...], here: tuple[Gpu, ...]) -> None:
    states = [
        None if any(gpu.mig is None for gpu in group) else any(gpu.mig for gpu in group)
        for group in (saved, here)
    ]
    words = [None if state is None else "on" if state else "off" for state in states]
    if any(gpu.mig for gpu in (*saved, *here)):
        message = (
            f"GPU partitions (MIG): {words[0] or 'unknown'} in the save, {words[1] or 'unknown'} on this node; "
            f"nobody has shown yet that a GPU save works with partitions"
        )
        sheet.add("gpu_mig", "refuse", message, words[0], words[1])
    elif None in states:
        sheet.unknown("gpu_mig", "GPU partitions (MIG)", "warn", words[0], words[1])
    else:
        sheet.add("gpu_mig", "ok", "GPU partitions (MIG): off on both", words[0], words[1])


def _gpu_memory(sheet: _Sheet, saved: Fingerprint, here: tuple[Gpu, ...], differs: Verdict) -> None:
    sizes = [gpu.memory_free_bytes for gpu in here]
    free = None if any(size is None for size in sizes) else sum(size for size in sizes if size is not None)
    _enough(sheet, "gpu_memory", "free GPU memory", saved.gpu_memory_needed_bytes, free, differs)


def _room(sheet: _Sheet, saved: Fingerprint, here: Facts) -> None:
    available = here.memory_available_bytes
    _enough(sheet, "memory", "memory", saved.memory_needed_bytes, available, "refuse")
    _enough(sheet, "disk", "free disk", saved.disk_needed_bytes, here.staging_free_bytes, "refuse")


def _enough(
    sheet: _Sheet, name: str, label: str, needed: int | None, free: int | None, short: Verdict
) -> None:
    texts = [
        None if needed is None else f"{_size(needed)} needed",
        None if free is None else f"{_size(free)} available",
    ]
    if needed is None or free is None:
        sheet.unknown(name, label, "warn", texts[0], texts[1])
    elif free < needed:
        sheet.add(
            name, short, f"{label}: {_size(needed)} needed, {_size(free)} available on this node", *texts
        )
    else:
        sheet.add(name, "ok", f"{label}: {_size(free)} available, {_size(needed)} needed", *texts)


def _size(size_bytes: int) -> str:
    for unit, scale in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20)):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.1f} {unit}"
    return f"{size_bytes} bytes"


def _libc(sheet: _Sheet, saved: Fingerprint, here: Facts) -> None:
    advice = "; a restored program keeps the old one in memory and may load parts of the new one"
    sheet.equal("libc", "C library", saved.libc, here.libc, differs="refuse", unknown="warn", advice=advice)


def _files(sheet: _Sheet, saved: Fingerprint, here: Facts) -> None:
    label = "programs and libraries"
    known: dict[str, FileIdentity | None] = {**here.image.files, **here.files}
    different = [f"{path} is {_identity(known[path])} here, {_identity(need)} in the save"
                 for path, need in sorted(saved.files.items()) if path in known and known[path] != need]  # fmt: skip
    unseen = [path for path in sorted(saved.files) if path not in known]
    shown = f"{len(saved.files)} files"
    if different:
        sheet.add("files", "refuse", f"{label}: {_list(different, '; ')}", shown, f"{len(different)} differ")
    elif unseen or not saved.files:
        what = f"not looked at on this node: {_list(unseen)}" if unseen else "the save names none"
        sheet.add(
            "files", "warn", f"{label}: whether they agree cannot be told, {what}", shown, None, known=False
        )
    else:
        sheet.add("files", "ok", f"{label}: all {len(saved.files)} as in the save", shown, shown)


def _identity(value: FileIdentity | None) -> str:
    if value is None:
        return "absent"
    return f"{value.size_bytes} bytes" + (f", build {value.build_id[:12]}" if value.build_id else "")


def _runtime(sheet: _Sheet, saved: Fingerprint, declared: dict[str, str]) -> None:
    if not saved.runtime:
        return
    wrong = [f"{name} {value!r} in the save, {declared[name]!r} now"
             for name, value in sorted(saved.runtime.items()) if declared.get(name, value) != value]  # fmt: skip
    unsaid = [
        f"{name} ({value!r} in the save)"
        for name, value in sorted(saved.runtime.items())
        if name not in declared
    ]
    shown = _list([f"{name}={value}" for name, value in sorted(saved.runtime.items())])
    if wrong:
        sheet.add("runtime", "refuse", f"declared versions: {_list(wrong, '; ')}; this needs a cold start", shown,
                  _list([f"{name}={declared[name]}" for name in sorted(saved.runtime) if name in declared]))  # fmt: skip
    elif unsaid:
        message = f"declared versions: {_list(unsaid)} not declared now; whether they agree cannot be told"
        sheet.add("runtime", "warn", message, shown, None, known=False)
    else:
        sheet.add("runtime", "ok", f"declared versions: {shown}, as in the save", shown, shown)


def _surroundings(sheet: _Sheet, saved: Fingerprint, here: Facts) -> None:
    systems = [_system(saved.os_id, saved.os_version), _system(here.image.os_id, here.image.os_version)]
    sheet.equal("os", "operating system", systems[0], systems[1], differs="warn", unknown="warn",
                advice="; files outside the save may differ")  # fmt: skip
    groups = [None if value is None else f"v{value}" for value in (saved.cgroup_version, here.cgroup_version)]
    sheet.equal("cgroup", "control groups", groups[0], groups[1], differs="warn", unknown="warn",
                advice="; limits of the job are not carried over")  # fmt: skip
    # Only modules that label processes: the others (yama, landlock, lockdown …) leave nothing in an image.
    modules = [
        None if value is None else ",".join(sorted(_LABELLING & set(value))) or "none"
        for value in (saved.lsm, here.lsm)
    ]
    sheet.equal("lsm", "security module that labels processes", modules[0], modules[1], differs="warn", unknown="warn",
                advice="; a profile the job ran under may be missing")  # fmt: skip


def _system(name: str | None, version: str | None) -> str | None:
    return None if name is None else f"{name} {version or ''}".strip()


def _list(items: list[str], separator: str = ", ") -> str:
    more = f"{separator}and {len(items) - _LISTED} more" if len(items) > _LISTED else ""
    return separator.join(items[:_LISTED]) + more
