"""Answers of the scripted fleet to the console's looks: checkpoints, places, pools, batches, the log."""

from __future__ import annotations

from typing import Any

from backends.clock import format_utc
from console.operations.view import FleetView

Document = dict[str, Any]
GIB = 1 << 30


def checkpoint(
    now: float, job: str, uid: str, name: str, ago_s: float, state: str = "saved", **more: Any
) -> Document:
    return {
        "name": f"{job}/{name}", "job": job, "uid": uid, "checkpoint": name, "state": state,
        "frozen_at": format_utc(now - ago_s), "age_s": ago_s, "size_bytes": more.pop("size", 9 * GIB), "node": more.pop("node", "gpu-e"),
        "engine": "criu", "verified": state == "verified", "rehearsed_on": more.pop("rehearsed_on", None), "freeze_s": 2.1, "upload_s": 41.0,
        "reason": more.pop("reason", ""), "store": "s3://ml-checkpoints/reprieve",
        "fingerprint": {"arch": "x86_64", "kernel": "6.12.9", "criu": "4.2", "cpu_flags": ["avx2"] * 40, "gpus": [{"model": "H100"}] * 8, "libc": "2.41"},
        **more,
    }  # fmt: skip


def checkpoints(view: FleetView, now: float) -> Document:
    uids = {job.name: job.uid for job in view.jobs}
    rows: list[tuple[str, str, float, str, Document]] = [
        ("fold-9", "1.14", 2122.0, "verified", {"node": "gpu-d", "size": 312 << 20}),
        ("fold-9", "1.13", 3022.0, "rehearsed", {"node": "gpu-d", "size": 311 << 20, "rehearsed_on": "free-1"}),
        ("fold-9", "1.12", 3922.0, "damaged", {"node": "gpu-d", "reason": "pack 3 does not match its digest"}),
        ("protein-mpnn", "1.22", 410.0, "verified", {}),
        ("protein-mpnn", "1.21", 1010.0, "saved", {}),
        ("llama-ft", "3.31", 252.0, "saved", {"node": "gpu-a", "size": 212 * GIB}),
        ("llama-ft", "3.30", 852.0, "rehearsed", {"node": "gpu-a", "size": 212 * GIB, "rehearsed_on": "free-1"}),
        ("llama-ft", "2.9", 90520.0, "orphan", {"node": "gpu-x", "size": 200 * GIB, "reason": "epoch 3 went on from 2.8"}),
        ("gromacs-02", "2.7", 1360.0, "saved", {"node": "gpu-b", "size": 3 * GIB}),
        ("tokenize-all", "4.2", 905.0, "saved", {"node": None, "size": GIB}),
    ]  # fmt: skip
    items = [
        checkpoint(now, job, uids.get(job, ""), name, ago, state, **more)
        for job, name, ago, state, more in rows
    ]
    return {"items": items, "problems": []}


def places(view: FleetView, name: str) -> Document:
    items: list[Document] = []
    for node in view.nodes:
        reasons: list[str] = []
        if node.state != "ok":
            reasons.append(f"{node.state}: {node.reason}")
        elif node.notice == "notice":
            reasons.append("its provider has announced that it will be taken")
        elif node.facts.get("gpus") != "8x H100":
            reasons.append(f"GPU model: 8x H100 in the save, {node.facts.get('gpus')} on this node")
            reasons.append("kernel: 6.12.9 in the save, an older one on this node")
        word = "warn" if node.name == "gpu-c" else "ok" if not reasons else "refuse"
        fits = not reasons
        if node.name == "gpu-c":
            reasons.append("a reclaim is hinted at; memory: 1.8 of 2.0 TiB in use")
        items.append(
            {"kind": "node", "name": node.name, "fits": fits, "word": word, "pool": node.pool, "jobs": len(node.jobs), "reasons": reasons}
        )  # fmt: skip
    rent = f"nothing is launched there: the restore policy of job {name} is owned: nothing is rented"
    items += [
        {"kind": "pool", "name": pool, "fits": "p5" in str(pool), "word": "ok", "pool": pool, "jobs": None,
         "reasons": ["1 of its 6 nodes fit: free-1" if "p5" in str(pool) else "none of its 1 nodes fits", rent]}
        for pool in dict.fromkeys(node.pool for node in view.nodes)
    ]  # fmt: skip
    return {"job": name, "checkpoint": "1.14", "policy": "owned", "best": "free-1", "items": items}


def pools(view: FleetView) -> Document:
    items = []
    for region in ("us-east-1", "us-east-2", "eu-west-1"):
        for index, (kind, gpu, vcpus, band) in enumerate(
            (("p5.48xlarge", "H100", 192, (0.10, 0.15, "10-15%")), ("p4d.24xlarge", "A100", 96, (0.20, 0.95, ">20%")),
             ("g6e.12xlarge", "L40S", 48, (0.0, 0.05, "<5%")), ("m7i.metal-24xl", None, 96, (0.05, 0.10, "5-10%")))
        ):  # fmt: skip
            name = f"aws/{region}/{kind}/linux"
            d = (
                None
                if (region, index) == ("us-east-2", 1)
                else round(0.71 - 0.13 * index + 0.02 * len(region), 2)
            )
            low, high, label = band
            items.append(
                {"name": name, "pool": name, "band": label, "band_low_fraction": low, "band_high_fraction": high,
                 "rate_low_per_hour": low / 720, "rate_high_per_hour": high / 720, "discount": d, "discount_fraction": d,
                 "break_even_ratio": None if d is None else d / (1 - d), "vcpus": vcpus, "ram_gb": 2048.0, "gpu": gpu,
                 "gpu_count": 8 if gpu else None, "snapshot": "2026-11-30", "snapshot_basis": "Last-Modified",
                 "source": "https://spot-bid-advisor.example/spot-advisor-data.json", "notes": ["the feed knows no saving"] if d is None else [],
                 "nodes": [node.name for node in view.nodes if node.pool == name]}
            )  # fmt: skip
    return {"items": items, "source": "example", "snapshot": "2026-11-30", "age_s": 86400.0, "gaps": 0}


def batches(now: float) -> Document:
    def item(number: int, job: str, state: str, reason: str = "", **more: Any) -> Document:
        return {"item": str(number), "job": job, "state": state, "reason": reason, **more}

    done: Document = {"node": "free-1", "checkpoint": "1.22", "lost_work_s": 410.0}
    return {
        "items": [
            {"name": "20261201-1349-c2", "state": "running", "created_at": format_utc(now - 640), "finished_at": None,
             "file": "lost.csv", "detail": "", "items": [item(1, "protein-mpnn", "restored", **done), item(2, "fold-9", "running"), item(3, "tokenize-all", "planned")]},
            {"name": "20261201-0312-a7", "state": "partial", "created_at": format_utc(now - 38880), "finished_at": format_utc(now - 38100),
             "file": "night.toml", "detail": "1 of 3 failed", "items": [item(1, "dock-77", "restored", **done), item(2, "old-run", "failed", "exit code 137 after the third restore"), item(3, "eval-batch", "already_restored", "it runs")]},
        ]
    }  # fmt: skip


def log(now: float) -> Document:
    def entry(ago: float, command: str, state: str, result: str = "", code: int | None = 0) -> Document:
        return {"schema": "reprieve/audit/v1", "at": format_utc(now - ago), "who": "ana", "via": "console", "context": "ml-team",
                "command": f"reprieve --context ml-team {command}", "state": state, "result": result, "exit": code}  # fmt: skip

    return {
        "items": [
            entry(120, "jobs save rerank-train", "done", "rerank-train is saved as 1.14"),
            entry(130, "jobs save rerank-train", "started", code=None),
            entry(300, "jobs move old-run --to gpu-b", "failed", "no node can take job old-run: gpu-b: its provider has announced that it will be taken", 6),
        ]
    }  # fmt: skip


def answer(words: str, arguments: Document, view: FleetView, now: float) -> Document:
    if words == "checkpoints":
        return checkpoints(view, now)
    if words == "places":
        return places(view, arguments["name"])
    if words == "pools":
        return pools(view)
    if words == "batches":
        return batches(now)
    if words == "log":
        return log(now)
    if words == "plan":
        values = {"hours": 24.0, "interval": 600 / 3600, "checkpoint_cost": 6.4 / 3600, "restore": 180 / 3600,
                  "history_node_hours": 160.0, "history_reclaims": 20}  # fmt: skip
        return {"values": values, "sources": {}, "pool": None}
    if words == "operation":
        steps = [{"at": format_utc(now - 240), "step": "claim", "phase": "intended", "data": {}},
                 {"at": format_utc(now - 239), "step": "claim", "phase": "observed", "data": {}}]  # fmt: skip
        return {
            "id": arguments["id"],
            "items": [{"item": "1", "job": "protein-mpnn", "state": "running", "reason": "", "steps": steps}],
        }
    raise AssertionError(words)
