"""The few answers of AWS that moto invents or lacks: spot prices, the price list, refusals. Shapes of the API reference."""

from __future__ import annotations

import contextlib
import json
import urllib.parse
from collections.abc import Iterator
from typing import Any

from tests.support.fakehttp import Asked, Reply, serving

ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true",
               "AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent"}  # fmt: skip


class FakeAws:
    """Pages of spot prices by token, list prices by type, and a refusal for every call when one is set."""

    def __init__(self) -> None:
        self.pages: dict[str, dict[str, Any]] = {}  # token ("" first) → page as boto3 shows it
        self.listed: dict[tuple[str, str], float] = {}  # (region, type) → USD an hour
        self.refusal: tuple[int, str, str] | None = None  # status, code, message
        self.asked: list[dict[str, str]] = []

    def answer(self, asked: Asked) -> Reply:
        if "x-amz-target" in asked.headers:
            return self._pricing(json.loads(asked.body))
        form = {name: values[0] for name, values in urllib.parse.parse_qs(asked.body).items()}
        self.asked.append(form)
        if self.refusal is not None:
            status, code, message = self.refusal
            return (
                status,
                "text/xml",
                (
                    f"<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>"
                    "<RequestID>r</RequestID></Response>"
                ),
            )
        page = self.pages[form.get("NextToken", "")]
        rows = "".join(
            "<item>" + "".join(f"<{name}>{row[key]}</{name}>" for name, key in _NAMES.items()) + "</item>"
            for row in page["SpotPriceHistory"]
        )
        body = (
            f'<DescribeSpotPriceHistoryResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId>'
            f"<spotPriceHistorySet>{rows}</spotPriceHistorySet><nextToken>{page['NextToken']}</nextToken>"
            "</DescribeSpotPriceHistoryResponse>"
        )
        return 200, "text/xml", body

    def _pricing(self, document: dict[str, Any]) -> Reply:
        wanted = {row["Field"]: row["Value"] for row in document["Filters"]}
        self.asked.append(wanted)
        if self.refusal is not None:
            status, code, message = self.refusal
            return status, "application/x-amz-json-1.1", json.dumps({"__type": code, "message": message})
        usd = self.listed.get((wanted["regionCode"], wanted["instanceType"]))
        term = {"priceDimensions": {"d": {"unit": "Hrs", "pricePerUnit": {"USD": f"{usd or 0:.10f}"}}}}
        rows = [] if usd is None else [json.dumps({"terms": {"OnDemand": {"t": term}}})]
        return 200, "application/x-amz-json-1.1", json.dumps({"PriceList": rows, "FormatVersion": "aws_v1"})


_NAMES = {"availabilityZone": "AvailabilityZone", "instanceType": "InstanceType",
          "productDescription": "ProductDescription", "spotPrice": "SpotPrice", "timestamp": "Timestamp"}  # fmt: skip


@contextlib.contextmanager
def fake_aws() -> Iterator[tuple[FakeAws, dict[str, str]]]:
    """The fake and the environment that leads boto3 to it."""
    fake = FakeAws()
    with serving(fake.answer) as url:
        yield fake, {**ENVIRONMENT, "AWS_ENDPOINT_URL": url}
