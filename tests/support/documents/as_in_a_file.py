"""Values of our types as their files have them."""

from __future__ import annotations

import json
from typing import Any

from kafka_rebalance.documents.json_files import plain


def in_json(value: Any) -> Any:
    return json.loads(json.dumps(value, default=plain))
