"""The policy file: whatever it holds, it is a policy or one of our own errors, and never "there is no policy"."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kafka_rebalance.errors import PolicyError
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.run.policy_file import read_policy
from support.documents.bad_documents import spoiled_yaml
from support.documents.valid_documents import SEED, Refused, use

VALID = {
    "approvers": ["uma", {"id": "7", "name": "vera"}],
    "max_bytes": 5_000,
    "brokers_out": [3],
    "topics_out": ["audit.*"],
    "max_bytes_share": 0.5,
}
DOCUMENTS = 400


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "prod.yaml"


def test_a_bad_file_is_refused_with_an_error_of_our_own_or_is_a_policy(file: Path) -> None:
    rng = random.Random(SEED)
    taken = refused = 0
    for number in range(DOCUMENTS):
        data = spoiled_yaml(rng, VALID)
        file.write_bytes(data)
        try:
            found = use(lambda: read_policy(file.parent, "prod"))
            assert Policy.from_mapping(found.to_mapping(), "it").digest == found.digest
            taken += 1
        except Refused:
            refused += 1
        except BaseException as wrong:
            wrong.add_note(f"{number}: {data[:2000]!r}")
            raise
    assert taken > DOCUMENTS / 20
    assert refused > DOCUMENTS / 5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("approvers: [uma]\nmax_bytes: 5\nmax_bytes: 500000\n", "max_bytes appears more than once"),
        ("approvers:\n- {id: '7', name: uma, name: olive}\n", "name appears more than once"),
        ("approvers: &who [uma]\ntopics_out: *who\n", "anchors and aliases"),
        ("approvers: [uma]\nmax_bytes: 0x" + "f" * 4_000, "beyond 64 bits"),
        ("approvers: [uma]\nmax_bytes: 2001-99-99\n", "month must be in 1..12"),
        ("approvers: " + "[" * 1_000, "RecursionError"),
        ("approvers: !!timestamp uma\n", "AttributeError"),
        ("approvers: !!python/object/apply:os.system ['true']\n", "could not determine a constructor"),
    ],
    ids=["twice", "twice inside", "alias", "huge", "no date", "deep", "no time", "code"],
)
def test_what_a_reviewer_would_misread_or_yaml_cannot_make_is_refused_with_the_reason(
    file: Path, text: str, said: str
) -> None:
    file.write_text(text)
    with pytest.raises(PolicyError, match=said) as refused:
        read_policy(file.parent, "prod")
    assert "Correct the file." in str(refused.value)


def test_aliases_of_aliases_are_refused_before_they_grow(file: Path) -> None:
    """Nine lines that would be a billion words in an error."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    file.write_text("\n".join(["approvers: *a8", *lines]))
    with pytest.raises(PolicyError, match="anchors and aliases") as refused:
        read_policy(file.parent, "prod")
    assert len(str(refused.value)) < 500
