"""No step of decoding waits for the device: the host hears of what has ended a step later."""

import warnings
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

import tfzoo
import tfzoo.search as search_module
from tests.gpu.test_models import model
from tfzoo.base.host_copies import HostCopies
from tfzoo.base.special_ids import OWN
from tfzoo.models import generation
from tfzoo.models.generation import generate
from tfzoo.search import Search

LENGTH, ROWS, V = 6, 3, 24


class Told(HostCopies):
    """A host that hears in the third step that the second sentence is done."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self.late, self.steps = True, 0

    def next(self, x):
        self.steps += 1
        if self.steps == 1:
            return None
        known = torch.zeros(x.shape, dtype=x.dtype)
        known[..., 1] = self.steps > 2 and x.dim() == 1
        return known


@pytest.fixture
def meta(monkeypatch):
    """The device ``meta``, whose tensors hold no numbers: what reads one fails."""
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *device: False)
    monkeypatch.setattr(torch, "autocast", lambda *given, **more: nullcontext())  # not for meta
    monkeypatch.setattr(search_module, "HostCopies", Told)


def counted(made, rows):
    """As search wants a model, whose source has no padding."""

    def decode_step(tokens, cache):
        rows.append(len(tokens))
        return made.decode_step(tokens, cache)

    return SimpleNamespace(
        max_positions=None,
        init_cache=lambda source, mask: made.init_cache(source, mask=mask),
        decode_step=decode_step,
    )


@pytest.mark.usefixtures("meta")
@pytest.mark.parametrize("beam", [1, 2])
def test_no_step_of_search_reads_the_device(beam):
    made, rows = model("attention", "scaled_dot_product").to("meta").eval(), list[int]()
    source = torch.empty(ROWS, 4, dtype=torch.long, device="meta")
    forced = search_module._LogProbabilities(
        counted(made, rows).decode_step, OWN.ends, OWN.never, source.device, OWN.bos
    )
    decode = search_module._write if beam == 1 else search_module._beam
    options = () if beam == 1 else (Search(beam=beam),)
    with torch.no_grad(), pytest.raises((NotImplementedError, RuntimeError), match="meta"):
        decode(forced, made.init_cache(source), *options, [LENGTH] * ROWS, OWN.bos)
    # The results alone are read, when all steps are over.
    assert rows == [3, *[3 * beam] * 2, *[2 * beam] * 3]


@pytest.mark.usefixtures("meta")
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_no_step_of_generation_reads_the_device(temperature, monkeypatch):
    made, calls = tfzoo.LanguageModel(V, 16, 2, 1).to("meta").eval(), list[int]()

    def read(made, prompt, *given):
        cache = made.init_cache()
        hidden = made.hidden(prompt, cache=cache)
        return cache, made.logits(hidden[:, -1])

    monkeypatch.setattr(generation, "_read", read)
    prompt = torch.empty(ROWS, 4, dtype=torch.long, device="meta")
    options = {} if temperature == 0 else {"top_k": 5, "top_p": 0.9}
    decode_step = made.decode_step
    made.decode_step = lambda tokens, cache: calls.append(1) or decode_step(tokens, cache)
    with pytest.raises((NotImplementedError, RuntimeError), match="meta"):
        generate(made, prompt, LENGTH, temperature=temperature, stop=3, **options)
    assert len(calls) == LENGTH - 1, "the results alone are read, when all steps are over"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("beam", [1, 4])
def test_more_steps_wait_no_more_often_for_the_gpu(beam):
    made = model("attention", "scaled_dot_product").cuda().eval()
    writer = tfzoo.LanguageModel(V, 16, 2, 1).cuda().eval()
    source, waits = torch.randint(5, V, (ROWS, 4), device="cuda"), []
    for length in (5, 10, 20):
        torch.cuda.set_sync_debug_mode("warn")
        try:
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                options = Search(beam=beam, max_length=(length - 10) / 4 if length > 10 else 0.0)
                search_module.search(made, source, options, special=OWN)
                generate(writer, source, length, stop=3, beam=beam)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        waits.append(sum("synchroniz" in str(one.message) for one in heard))
    assert waits[0] == waits[1] == waits[2]
