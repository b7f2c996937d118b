"""Where the parts of a policy set are written, also beside files with errors."""

from tests.policy.loading import policy
from webhook.policy.lint import Sources


def sources(*files: str) -> Sources:
    return Sources.of((f"{chr(ord('a') + index)}.yaml", text.encode()) for index, text in enumerate(files))


def test_of_two_documents_with_one_name_the_first_counts() -> None:
    found = sources(policy(name="p"), policy(name="p"))
    assert [(key, document.source) for key, document in found.documents.items()] == [
        (("PodPolicy", "p"), "a.yaml")
    ]


def test_files_that_cannot_be_read_and_documents_without_a_name_are_passed_over() -> None:
    nameless = policy(name="p").replace("  name: p\n", "  labels: {}\n")
    found = sources(
        policy(name="p") + "\n  : [", "just text", nameless, "metadata:\n  name: p", policy(name="p")
    )
    assert [document.source for document in found.documents.values()] == ["e.yaml"]
