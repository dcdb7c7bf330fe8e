"""The decoder-only model, and how it continues a text."""

import pytest
import torch
from torch.testing import assert_close
from transformers.generation import logits_process

import tfzoo
from tests.exact import close
from tests.published_folders import peer_of
from tfzoo.errors import BadOption
from tfzoo.masks import Mask
from tfzoo.models.generation import filter_logits
from tfzoo.testing.samples import randomize

TEXT = torch.tensor([[5, 6, 7, 8, 9], [10, 11, 12, 0, 0]])
LEFT = torch.tensor([[5, 6, 7, 8, 9], [0, 0, 10, 11, 12]])


def small(**options):
    sizes = {"vocab_size": 20, "dim": 8, "heads": 2, "layers": 2, "dropout": 0.0}
    torch.manual_seed(1)
    model = tfzoo.LanguageModel(**{**sizes, **options})
    randomize(model)
    return model.double().eval()


def real(text):
    """Zeros are padding."""
    return Mask(keys=text != 0)


def continued(model, prompt, count):
    """By the most probable token, all computed anew for each."""
    ids = prompt
    for _ in range(count):
        logits = model(ids)[:, -1]
        logits[:, 0] = float("-inf")
        ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], 1)
    return ids[:, prompt.shape[1] :]


def test_logits_are_the_decoders_states_times_the_embeddings():
    model = small(position="rotary")
    states = model.decoder(4**0.5 * 2**0.5 * model.embedding.weight[TEXT[:1]])
    close(model(TEXT[:1]), states @ model.embedding.weight.mT)


def test_an_untied_head_has_its_own_weight_and_bias():
    model = small(tie=False, head_bias=True)
    expected = model.hidden(TEXT) @ model.projection.mT + model.output_bias
    close(model(TEXT), expected)


@pytest.mark.parametrize("cap", [None, 2.0])
@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("position", ["learned", "rotary", "alibi"])
def test_a_cached_token_has_the_logits_of_the_whole_text(position, gradients, cap):
    model = small(position=position, logit_cap=cap)
    with torch.set_grad_enabled(gradients):
        whole, cache = model(TEXT[:1]), model.init_cache()
        steps = [model(TEXT[:1, :2], cache=cache)[:, -1]]
        steps += [model.decode_step(TEXT[:1, i], cache) for i in range(2, 5)]
    close(torch.stack(steps, 1), whole[:, 1:])


@pytest.mark.parametrize(
    "options",
    [
        {"position": "learned"},
        {"position": "rotary"},
        {"position": "rotary", "window": 3},
        {"mixer": "gru", "position": "none"},
        {"mixer": "convolution"},
        {"mixer": "linear_attention"},
        {"mixer": "average"},
    ],
    ids=str,
)
def test_greedy_is_the_most_probable_token_whatever_the_padding(options):
    model = small(**options)
    expected = torch.cat([continued(model, TEXT[:1], 6), continued(model, TEXT[1:, :3], 6)])
    for prompt in (TEXT, LEFT):
        found = tfzoo.generate(model, prompt, 6, mask=real(prompt), pad=0)
        assert found.tolist() == expected.tolist()


def test_a_row_ends_with_the_stop_token_and_padding():
    model = small()
    given = {"mask": real(TEXT), "pad": 0}
    free = tfzoo.generate(model, TEXT, 6, **given)
    stop = int(free[0, 1])
    ended = tfzoo.generate(model, TEXT, 6, stop=stop, **given)
    for row, whole in zip(ended.tolist(), free.tolist(), strict=True):
        end = whole.index(stop) + 1 if stop in whole else 6
        assert row == (whole[:end] + [0] * 6)[: len(row)]
    for several in (stop, torch.tensor(stop), torch.tensor([0, stop])):
        assert tfzoo.generate(model, TEXT[:1], 6, stop=several).shape[1] <= 2


def test_sampling_repeats_with_the_generators_seed_and_follows_the_probabilities():
    model = small()
    prompt = TEXT[:1].expand(4000, -1)

    def draw(seed):
        random = torch.Generator().manual_seed(seed)
        return tfzoo.generate(model, prompt, 1, temperature=2.0, pad=0, generator=random)[:, 0]

    assert draw(1).equal(draw(1))
    assert not draw(1).equal(draw(2))
    logits = model(TEXT[:1])[0, -1] / 2
    logits[0] = float("-inf")
    p = logits.softmax(-1)
    found = draw(1).bincount(minlength=20) / 4000
    assert bool(((found - p).abs() <= 4.5 * (p * (1 - p) / 4000).sqrt()).all())  # 4.5 sigma


def test_filters_are_those_of_transformers():
    logits = torch.randn(50, 30, dtype=torch.float64, generator=torch.manual_seed(0))
    for temperature, k, p in ((0.7, 5, None), (1.3, None, 0.8), (1.0, 12, 0.5), (2.0, 99, 1.0)):
        expected = logits_process.TemperatureLogitsWarper(temperature)(None, logits)
        if k is not None:
            expected = logits_process.TopKLogitsWarper(k)(None, expected)
        if p is not None:
            expected = logits_process.TopPLogitsWarper(p)(None, expected)
        assert_close(filter_logits(logits, temperature, k, p), expected, rtol=0, atol=0)


def test_beams_find_what_those_of_transformers_do(tmp_path):
    sizes = {"vocab_size": 23, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 20}
    peer = peer_of("GPT2LMHeadModel", {**sizes, "bos_token_id": 3, "eos_token_id": 3})
    torch.manual_seed(0)
    for parameter in peer.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    peer.save_pretrained(tmp_path)
    model = tfzoo.from_pretrained(tmp_path).double().eval()
    prompt = torch.randint(4, 23, (20, 5))
    for beam, stop in ((2, None), (3, 2), (5, 2)):
        # Penalties are of different formulas; 0 is none in both.
        expected = peer.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            num_beams=beam,
            max_new_tokens=9,
            length_penalty=0.0,
            early_stopping="never",
            eos_token_id=stop,
            pad_token_id=stop,
        )[:, 5:]
        found = tfzoo.generate(model, prompt, 9, beam=beam, length_penalty=0.0, stop=stop)
        assert found.tolist() == expected.tolist()
        if stop is not None:  # some end, some do not
            assert 0 < sum(stop in row for row in found.tolist()) < 20


def test_beams_are_those_of_a_prompt_alone():
    model = small()
    how = {"beam": 3, "pad": 0}
    alone = [tfzoo.generate(model, prompt, 6, **how) for prompt in (TEXT[:1], TEXT[1:, :3])]
    for prompt in (TEXT, LEFT):
        found = tfzoo.generate(model, prompt, 6, mask=real(prompt), **how)
        assert found.equal(torch.cat(alone))
    assert bool((alone[0] != 0).all())
    assert tfzoo.generate(model, TEXT[:0], 6, beam=3).shape == (0, 0)


def test_a_cap_of_logits_is_over_0():
    with pytest.raises(BadOption, match="logit_cap=0"):
        small(logit_cap=0.0)


def test_padding_is_never_generated():
    model = small(tie=False, head_bias=True)
    with torch.no_grad():
        model.output_bias[0] = 100.0
    for options in ({}, {"temperature": 1.0}, {"beam": 2}):
        assert bool((tfzoo.generate(model, TEXT, 5, pad=0, **options) != 0).all())
        assert bool((tfzoo.generate(model, TEXT, 5, **options) == 0).any())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens=0 must be a whole number at least 1"),
        ({"temperature": -1.0}, "temperature=-1.0"),
        ({"temperature": 1.0, "top_p": 0.0}, "top_p=0.0"),
        ({"temperature": 1.0, "top_p": 1.5}, "top_p=1.5"),
        ({"temperature": 1.0, "top_k": 0}, "top_k=0"),
        ({"top_k": 5}, "set temperature over 0"),
        ({"stop": "a"}, "stop='a' must be a whole number at least 0"),
        ({"beam": 2, "temperature": 1.0}, "beams search .* and temperature samples one"),
        ({"beam": 3, "top_k": 5}, "set temperature over 0"),
        ({"beam": 1001}, "beam=1001 must be a whole number at least 1 and at most 1000"),
        ({"beam": 0}, "beam=0 must be a whole number at least 1"),
        ({"max_new_tokens": 8}, "5 tokens and 8 new ones, but the model has 10 positions"),
        ({"mask": Mask.right(torch.tensor([5, 0]), 5)}, "a prompt without tokens"),
        ({"mask": TEXT != 0}, "mask must be a tfzoo.Mask, not Tensor"),
    ],
)
def test_what_cannot_be_generated_is_said(options, says):
    model = small(position="learned", max_length=10)
    with pytest.raises(BadOption, match=says):
        tfzoo.generate(model, **{"prompt": TEXT, "max_new_tokens": 2, **options})


# Embeddings and prefixes --------------------------------------------------------------------------


def test_embeddings_take_the_place_of_ids_and_a_mask_says_what_is_padding():
    model = small(position="rotary")
    alone = model(TEXT[1:, :3])[0]
    for ids in (TEXT, LEFT):
        mask = real(ids)
        found = model(embeddings=model.embedding(ids), mask=mask)
        close(found[1, mask.keys[1]], alone)
        close(model(ids, mask=mask)[1, mask.keys[1]], alone)
    learned = torch.zeros(2, 1, 8, dtype=torch.float64, requires_grad=True)
    model(embeddings=torch.cat([learned, model.embedding(TEXT)], 1)).sum().backward()
    assert learned.grad is not None
    assert bool(learned.grad.any())
