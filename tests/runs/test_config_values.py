"""A value of the wrong type in ``config.json`` is refused in one line, whatever the key."""

import pytest

from tests.published_folders import peer_of
from tests.runs.test_published import ODD
from tfzoo.base import memory
from tfzoo.errors import BadRun, TfzooError
from tfzoo.models.architectures import architecture
from tfzoo.models.architectures.config import READERS, read_config

VALUES = ["x", None, -1, 0.5, ["x"], {"x": 5}]
ALWAYS = (
    "id2label",
    "problem_type",
    "architectures",
    "pad_token_id",
    "layer_types",
    "rope_scaling",
)


def configurations(name):
    """That of a small model, and of a classifier where the architecture has one."""
    said = architecture(name)
    config = peer_of(said.transformers, ODD[name][0]).config.to_dict()
    labels = {"id2label": {"0": "a", "1": "b"}}
    classes = [said.transformers, *said.classifier.get("classes", [])[:1]]
    return [{**config, **labels, "architectures": [cls]} for cls in classes]


@pytest.mark.parametrize("name", ODD)
def test_every_key_of_a_wrong_type_is_read_or_refused_in_one_line(name):
    said = architecture(name).config
    of_readers = (key for reader in said.get("readers", ()) for key in READERS[reader].keys)
    for config in configurations(name):
        for key in {*config, *said["keys"], *of_readers, *ALWAYS}:
            for value in VALUES:
                try:
                    found = read_config({**config, key: value})
                    if key in said["keys"]:
                        memory.check_model(found.model, found.options, BadRun)
                except TfzooError as error:
                    lines = str(error).splitlines()
                except Exception as error:
                    pytest.fail(f"{key}: {value!r} ends in {error!r}")
                else:
                    lines = ["a model"]
                assert len(lines) == 1
