"""Mistakes that people make in this field, each as one change to tfzoo's source, and the test that
must catch it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bug:
    """``fragment`` stands once in ``file``, under ``src/tfzoo``; ``caught_by`` is a check as
    :mod:`tests.testing.seeded` reads it.
    """

    name: str
    file: str
    fragment: str
    replacement: str
    caught_by: str


PLAIN = "scaled_dot_product-layer-sinusoidal-pre"
CLASSIFIER = "scaled_dot_product-layer-sinusoidal-pre-mean"
OPTIONS = "tests/testing/test_options.py::"
NORM = "tests/norm/test_norm.py::"
POSITION = "tests/position/test_position.py::"
RESIDUAL = "tests/residual/test_residual.py::"
FORMULA = "tests/feedforward/test_feedforward.py::test_is_its_formula"
ALONE = "tests/blocks/test_encoder_decoder.py::"

BUGS = (
    # masks
    Bug(
        "the mask is ignored",
        "masks.py",
        "visible = None if self.keys is None else self.keys[:, None, None, :]",
        "visible = None",
        "attention scaled_dot_product hidden_keys_have_no_influence",
    ),
    Bug(
        "a mask of queries and keys counts only where no key is padding",
        "masks.py",
        "self.allowed if visible is None else visible & self.allowed",
        "self.allowed if visible is None else visible",
        "attention scaled_dot_product hidden_keys_have_no_influence",
    ),
    Bug(
        "a kernel forgets the mask of queries and keys",
        "attention/_inner_products.py",
        "and mask.allowed is None",
        "",
        "attention scaled_dot_product hidden_keys_have_no_influence",
    ),
    Bug(
        "the causal mask lets the next token through",
        "masks.py",
        "(torch.arange(k, device=device) <= place)",
        "(torch.arange(k, device=device) <= place + 1)",
        f"stack decoder-{PLAIN} a_token_has_influence_on_itself_and_whatever_may_look_at_it",
    ),
    Bug(
        "the causal mask hides the token itself",
        "masks.py",
        "(torch.arange(k, device=device) <= place)",
        "(torch.arange(k, device=device) < place)",
        f"stack decoder-{PLAIN} a_token_has_influence_on_itself_and_whatever_may_look_at_it",
    ),
    Bug(
        "the causal mask stands at the top left, also in a cached step",
        "masks.py",
        "first = self.first_query(q, k)",
        "first = 0",
        f"stack decoder-{PLAIN} one_token_at_a_time_equals_all_at_once",
    ),
    Bug(
        "what is hidden is only made 1000 smaller",
        "masks.py",
        'added[..., :k].masked_fill_(~visible, float("-inf"))',
        "added[..., :k].masked_fill_(~visible, -1000.0)",
        "attention scaled_dot_product hidden_keys_have_no_influence",
    ),
    Bug(
        "a query that may look at nothing is forgotten",
        "masks.py",
        "added[..., k : k + 1].masked_fill_(empty, 0.0)",
        "pass",
        "attention scaled_dot_product a_query_that_may_look_at_nothing_gets_zeros",
    ),
    # positions
    Bug(
        "positions count from 0 at each cached step",
        "blocks/positioned.py",
        "return k_pos[:, start:], k_pos",
        "return k_pos[:, :n], k_pos",
        "stack decoder-scaled_dot_product-layer-rotary-pre one_token_at_a_time_equals_all_at_once",
    ),
    Bug(
        "padding on the left counts as positions",
        "blocks/positioned.py",
        'shared = valid is None or (cache is None and padding == "right")',
        "shared = True",
        f"stack encoder-{PLAIN} padding_has_no_influence",
    ),
    Bug(
        "padding counts for the length of a sentence",
        "blocks/stack.py",
        "if mask is None or mask.keys is None",
        "if True",
        "stack encoder-scaled_dot_product-layer-unit_interval-pre padding_has_no_influence",
    ),
    Bug(
        "the bias is not added",
        "mixer/multihead.py",
        "return self.attend(x, q, k, v, context.mask, context.bias)",
        "return self.attend(x, q, k, v, context.mask)",
        "stack encoder-scaled_dot_product-layer-relative_bias-pre "
        "order_matters_if_and_only_if_there_are_positions",
    ),
    Bug(
        "a decoder's relative bias looks both ways",
        "blocks/positioned.py",
        "max_length=options.max_length, causal=causal",
        "max_length=options.max_length, causal=False",
        OPTIONS + "test_a_position_is_told_where_it_stands[relative_bias]",
    ),
    Bug(
        "half-split rotary turns its gradients the wrong way",
        "rotation.py",
        "return RotateHalvesFunction.apply(grad, cos, -sin), None, None",
        "return RotateHalvesFunction.apply(grad, cos, sin), None, None",
        "position rotary gradients_are_those_of_the_output",
    ),
    Bug(
        "channels beyond the rotated ones are dropped",
        "rotation.py",
        "return torch.cat((self(first), rest), -1)",
        "return torch.cat((self(first), 0 * rest), -1)",
        POSITION + "test_rotary_over_a_fraction_equals_neox",
    ),
    Bug(
        "a fraction of a head is rotated as slowly as all of it",
        "position/rotary.py",
        "self.base ** (channel / -self.rotated)",
        "self.base ** (channel / (-2 * self.rotated))",
        POSITION + "test_rotary_over_a_fraction_equals_neox",
    ),
    Bug(
        "the factor of YaRN multiplies scores once",
        "position/_rotary_scaling.py",
        "self.amplitude = 0.1 * math.log(self.factor) + 1.0",
        "self.amplitude = (0.1 * math.log(self.factor) + 1.0) ** 0.5",
        POSITION + "test_scaled_rotary_equals_transformers",
    ),
    Bug(
        "fast pairs are scaled and slow ones stay",
        "position/_rotary_scaling.py",
        "frequencies * (stays + (1 - stays) / self.factor)",
        "frequencies * ((1 - stays) + stays / self.factor)",
        POSITION + "test_scaled_rotary_equals_transformers",
    ),
    Bug(
        "sines and cosines are concatenated in the wrong order",
        "position/sinusoidal.py",
        "table = torch.cat(waves, -1)",
        "table = torch.cat(waves[::-1], -1)",
        POSITION + "test_sinusoids_equal_marian",
    ),
    Bug(
        "fairseq's frequencies are the paper's",
        "position/sinusoidal.py",
        "self.span = max(dim - 2, 2) if endpoint else dim",
        "self.span = dim",
        "position sinusoidal every_option_changes_something",
    ),
    Bug(
        "a trained penalty becomes a reward",
        "position/kerple.py",
        "return -r1.exp() * torch.log1p(r2.exp() * distance)",
        "return -r1 * torch.log1p(r2.exp() * distance)",
        POSITION + "test_kerple_is_its_formula[logarithmic]",
    ),
    Bug(
        "a power of distance is not limited",
        "position/kerple.py",
        "distance.clamp(min=1) ** (2 * r2.sigmoid())",
        "distance.clamp(min=1) ** r2.exp()",
        POSITION + "test_kerple_is_its_formula[power]",
    ),
    Bug(
        "a network of the distance sees no direction",
        "position/continuous_bias.py",
        "distance.sign() * distance.abs().log1p()",
        "distance.abs().log1p()",
        POSITION + "test_continuous_bias_equals_the_network_of_swin_v2",
    ),
    Bug(
        "a network of the distance is computed in half precision",
        "position/continuous_bias.py",
        "with torch.autocast(device.type, enabled=False):",
        "with torch.autocast(device.type, enabled=torch.is_autocast_enabled(device.type)):",
        POSITION + "test_numbers_are_as_exact_where_half_precision_is_the_default[continuous_bias]",
    ),
    # the cache
    Bug(
        "a key is cached before it is turned",
        "mixer/multihead.py",
        """        if context.rotation is not None:
            q, k = context.rotation(q), context.rotation(k)
        k = self.prepare_keys(k)
        if context.cache is not None:
            k, v = context.cache.target[layer].append(k, v, context.kept)
""",
        """        if context.cache is not None:
            k, v = context.cache.target[layer].append(k, v, context.kept)
        if context.rotation is not None:
            q, k = context.rotation(q), context.rotation(k)
        k = self.prepare_keys(k)
""",
        "stack decoder-scaled_dot_product-layer-rotary-pre one_token_at_a_time_equals_all_at_once",
    ),
    Bug(
        "keys are made of what keys made",
        "mixer/multihead.py",
        "k, v = context.cache.target[layer].append(k, v, context.kept)",
        "k, v = context.cache.target[layer].append(k, v, context.kept)\n"
        "            k = self.attention.prepare_keys(k)",
        "stack decoder-additive-layer-sinusoidal-pre one_token_at_a_time_equals_all_at_once",
    ),
    Bug(
        "the cache does not know how far decoding has come",
        "blocks/decoder.py",
        "self.run(x, mask, context)\nif cache is not None:\n    cache.length += x.shape[1]",
        "self.run(x, mask, context)",
        f"stack translator-{PLAIN} one_token_at_a_time_equals_all_at_once",
    ),
    Bug(
        "beams do not move in the cache",
        "blocks/cache.py",
        "            layer.reorder(rows)",
        "            layer.reorder(rows.sort().values)",
        f"stack translator-{PLAIN} a_cache_follows_its_rows",
    ),
    Bug(
        "cross-attention keeps the wrong sentences",
        "blocks/cache.py",
        "            layer.reorder(sentences)",
        "            layer.reorder(sentences.flip(0))",
        f"stack translator-{PLAIN} a_cache_follows_its_rows",
    ),
    Bug(
        "the source's padding stays with the first sentences",
        "masks.py",
        "keys[rows]",
        "keys[: len(rows)]",
        f"stack translator-{PLAIN} a_cache_follows_its_rows",
    ),
    Bug(
        "padding of a prompt is seen by the tokens that follow",
        "blocks/positioned.py",
        "keys = cache.append_non_padding(valid, x.shape[0], x.shape[1])",
        "cache.append_non_padding(valid, x.shape[0], x.shape[1])\n            keys = None",
        ALONE + "test_generation_with_a_cache_equals_one_pass[additive]",
    ),
    Bug(
        "padding of a prompt counts as positions of the tokens that follow",
        "blocks/positioned.py",
        "(earlier[:, -1:] if start else -1)",
        "start - 1",
        ALONE + "test_generation_with_a_cache_equals_one_pass[additive]",
    ),
    Bug(
        "rows move in the cache without their padding",
        "blocks/cache.py",
        "self.non_padding = self.non_padding.index_select(0, rows)",
        "self.non_padding = self.non_padding.index_select(0, rows * 0)",
        ALONE + "test_a_cache_holds_the_memory_and_follows_its_rows[Decoder]",
    ),
    # norms
    Bug(
        "padding counts in batch statistics",
        "norm/batch.py",
        "wide = wide.masked_fill(padded, 0.0)",
        "wide = wide + 0.0",
        "norm batch padding_has_no_influence",
    ),
    Bug(
        "padding counts in the number of tokens of a text",
        "norm/instance.py",
        "count = valid.sum(1)[:, None, None].clamp(min=1)",
        "count = x.shape[1]",
        "norm instance padding_has_no_influence",
    ),
    Bug(
        "the one length of a norm does not reach its gradient",
        "norm/scale.py",
        "self.g.to(dtype) / math.sqrt(self.dim)",
        "self.g.detach().to(dtype) / math.sqrt(self.dim)",
        "norm scale gradients_reach_every_parameter_and_every_real_token",
    ),
    Bug(
        "the one length of a norm is the root mean square",
        "norm/scale.py",
        "nn.init.constant_(self.g, math.sqrt(self.dim))",
        "nn.init.constant_(self.g, 1.0)",
        NORM + "test_scale_is_one_length_times_the_direction",
    ),
    Bug(
        "the slope of a dynamic tanh stands outside",
        "norm/dyt.py",
        "torch.tanh(alpha * x.to(dtype))",
        "alpha * torch.tanh(x.to(dtype))",
        NORM + "test_dyt_is_a_tanh_with_trained_width_and_height",
    ),
    Bug(
        "a dynamic tanh starts at another width than its option says",
        "norm/dyt.py",
        "self.initial_alpha = alpha",
        "self.initial_alpha = 1.0",
        "norm dyt every_option_changes_something",
    ),
    Bug(
        "a norm without bias has one",
        "norm/layer.py",
        "nn.Parameter(torch.empty(dim)) if bias else None",
        "nn.Parameter(torch.empty(dim))",
        "norm layer every_option_changes_something",
    ),
    Bug(
        "a centred norm starts at twice its size",
        "norm/rms.py",
        "0.0 if self.centred else 1.0",
        "1.0",
        NORM + "test_centred_rms_equals_gemma",
    ),
    Bug(
        "the stack forgets to tell its norms what is padding",
        "blocks/positioned.py",
        "valid=valid if self.norm_mixes_tokens else None",
        "valid=None",
        "stack encoder-scaled_dot_product-instance-sinusoidal-pre padding_has_no_influence",
    ),
    Bug(
        "a norm after the residual connection is not told what is padding",
        "residual/post.py",
        "return self.norm(x + self.branch(x, *args), valid)",
        "return self.norm(x + self.branch(x, *args))",
        "stack encoder-scaled_dot_product-batch-sinusoidal-post "
        "padding_has_no_influence_while_training",
    ),
    Bug(
        "running statistics are not saved",
        "norm/batch.py",
        'self.register_buffer("running_mean", torch.empty(dim))',
        'self.register_buffer("running_mean", torch.empty(dim), persistent=False)',
        "norm batch what_training_has_seen_is_saved",
    ),
    Bug(
        "the final norm is missing",
        "blocks/stack.py",
        "return x if self.final_norm is None else self.final_norm(x, context.valid)",
        "return x",
        f"stack encoder-{PLAIN} gradients_reach_every_parameter",
    ),
    Bug(
        "a decoder may have a norm that sees the future",
        "blocks/rules.py",
        "if not (parts.causal and mixes_tokens(parts.norm)):",
        "if True:",
        "tests/testing/test_stacks.py::test_a_stack_is_refused_exactly_where_the_traits_say_so[decoder]",
    ),
    # feed-forward layers
    Bug(
        "a sigmoid stands where its product with the input should",
        "feedforward/silu.py",
        "return F.silu(z)",
        "return F.sigmoid(z)",
        FORMULA + "[silu-False]",
    ),
    Bug(
        "Swish has a slope of its own",
        "feedforward/silu.py",
        "return F.silu(z)",
        "return z * F.sigmoid(1.702 * z)",
        FORMULA + "[silu-True]",
    ),
    Bug(
        "the rectifier is not squared",
        "feedforward/relu_squared.py",
        ".square()",
        ".clone()",
        FORMULA + "[relu_squared-False]",
    ),
    Bug(
        "the square comes before the rectifier",
        "feedforward/relu_squared.py",
        "F.relu(z, inplace=True).square()",
        "F.relu(z.square())",
        FORMULA + "[relu_squared-True]",
    ),
    Bug(
        "the gate has no rectifier",
        "feedforward/reglu.py",
        "return F.relu(z)",
        "return z",
        FORMULA + "[reglu-False]",
    ),
    Bug(
        "the gate is a step",
        "feedforward/reglu.py",
        "return F.relu(z)",
        "return (z > 0).to(z)",
        FORMULA + "[reglu-True]",
    ),
    Bug(
        "a bilinear layer has an activation",
        "feedforward/bilinear.py",
        "return z",
        "return z.sigmoid()",
        FORMULA + "[bilinear-False]",
    ),
    Bug(
        "the gate of a bilinear layer is not read",
        "feedforward/bilinear.py",
        "return z",
        "return z * 0 + 1",
        FORMULA + "[bilinear-True]",
    ),
    Bug(
        "gate and value are exchanged",
        "feedforward/_layers.py",
        "gate, value = self.inner(x).chunk(2, -1)",
        "value, gate = self.inner(x).chunk(2, -1)",
        FORMULA + "[reglu-False]",
    ),
    Bug(
        "a gated layer takes two thirds of its width",
        "feedforward/_layers.py",
        "width = hidden or gated_width(dim)",
        "width = round((hidden or 4 * dim) * 2 / 3)",
        FORMULA + "[swiglu-False]",
    ),
    Bug(
        "the approximation of gelu is accepted and not used",
        "feedforward/gelu.py",
        "approximate=self.approximate",
        'approximate="none"',
        "feedforward gelu every_option_changes_something",
    ),
    Bug(
        "the approximation of geglu is accepted and not used",
        "feedforward/geglu.py",
        "approximate=self.approximate",
        'approximate="none"',
        "feedforward geglu every_option_changes_something",
    ),
    # blocks
    Bug(
        "the residual connection is dropped",
        "residual/pre.py",
        "return x + self.branch(self.norm(x, valid), *args)",
        "return self.branch(self.norm(x, valid), *args)",
        OPTIONS
        + "test_layers_of_nothing_pass_on_what_they_get_if_there_is_a_residual_connection[pre]",
    ),
    Bug(
        "the temperature is accepted and not used",
        "blocks/multihead.py",
        "temperature=self.temperature",
        "temperature=1.0",
        OPTIONS + "test_scores_are_divided_by_the_temperature",
    ),
    Bug(
        "dropout goes on outside training",
        "contracts.py",
        "drop(self.inner(x, *args), self.dropout if self.training else 0.0)",
        "drop(self.inner(x, *args), self.dropout)",
        OPTIONS + "test_dropout_acts_in_training_and_nowhere_else[dropout]",
    ),
    Bug(
        "dropout does not scale what it keeps",
        "dropout.py",
        "ctx.scale = STEPS / (STEPS - steps)",
        "ctx.scale = 1.0",
        "feedforward relu dropout_acts_as_given_and_not_otherwise",
    ),
    Bug(
        "the width of values is accepted and not used",
        "blocks/multihead.py",
        "value_dim = options.value_head_dim or head_dim",
        "value_dim = head_dim",
        OPTIONS + "test_every_option_of_a_model_changes_something[value_head_dim]",
    ),
    Bug(
        "shared keys go to the wrong heads",
        "blocks/multihead.py",
        '"b h n c -> b (h g) n c"',
        '"b h n c -> b (g h) n c"',
        OPTIONS + "test_keys_and_values_are_shared_by_neighbouring_heads[scaled_dot_product]",
    ),
    Bug(
        "one projection for queries and keys is accepted and not made",
        "blocks/multihead.py",
        "self.key = None if options.share_query_key else",
        "self.key =",
        OPTIONS + "test_every_option_of_a_model_changes_something[share_query_key]",
    ),
    Bug(
        "an option of a component is accepted and not used",
        "attention/cosine.py",
        "self.initial_scale = scale",
        "self.initial_scale = 10.0",
        "attention cosine every_option_changes_something",
    ),
    Bug(
        "a number that no norm can add is taken",
        "norm/layer.py",
        """check_range("norm 'layer': eps", eps, gt=0)""",
        "eps",
        "norm layer a_value_that_cannot_be_is_refused",
    ),
    # classifiers
    Bug(
        "padding counts in the mean",
        "pooling/mean.py",
        "total / valid.sum(1, keepdim=True).clamp(min=1)",
        "total / x.shape[1]",
        "pooling mean padding_has_no_influence",
    ),
    Bug(
        "padding is zero, and zero the largest of negative numbers",
        "pooling/max.py",
        'x.masked_fill(~valid[..., None], float("-inf"))',
        "x.masked_fill(~valid[..., None], 0.0)",
        "pooling max padding_has_no_influence",
    ),
    Bug(
        "the first token is the first place",
        "pooling/first.py",
        "        place = valid.to(torch.uint8).argmax(1)  # of the first True\n",
        "        place = valid.to(torch.uint8).argmax(1) * 0\n",
        "pooling first padding_has_no_influence",
    ),
    Bug(
        "the pooler reads the first place of a text that begins later",
        "pooling/pooler.py",
        "self.linear(self.first(x, valid))",
        "self.linear(x[:, 0])",
        "pooling pooler padding_has_no_influence",
    ),
    Bug(
        "the pooler answers to a text of no token",
        "pooling/pooler.py",
        "return pooled if valid is None else pooled.masked_fill(~valid.any(1, keepdim=True), 0.0)",
        "return pooled",
        "pooling pooler texts_of_no_token_are_harmless",
    ),
    Bug(
        "runs of tokens reach into what stands in the padding",
        "pooling/convolution.py",
        "x = x.masked_fill(~valid[..., None], 0.0)",
        "x = x.clone()",
        "pooling convolution padding_has_no_influence",
    ),
    Bug(
        "runs of tokens end with the batch and not with their text",
        "pooling/convolution.py",
        "padding=weight.shape[-1] - 1)",
        'padding="same")',
        "pooling convolution padding_has_no_influence",
    ),
    Bug(
        "padding matches by zero, and zero is more than a text's own best match",
        "pooling/convolution.py",
        "F.relu(torch.cat(matches, -1))",
        "torch.cat(matches, -1)",
        "pooling convolution a_text_does_not_see_the_others_of_its_batch",
    ),
    Bug(
        "the pooling is not told what is padding",
        "models/classifier.py",
        "self.pooling(self.encode(text, types, padding=padding), self.valid(text, padding))",
        "self.pooling(self.encode(text, types, padding=padding))",
        f"classifier {CLASSIFIER} padding_has_no_influence",
    ),
    Bug(
        "a classifier's encoder sees padding",
        "models/classifier.py",
        "return self.encoder(self.embedding(text), mask=mask, padding=padding)",
        "return self.encoder(self.embedding(text), padding=padding)",
        f"classifier {CLASSIFIER} a_text_does_not_see_the_others_of_its_batch",
    ),
    Bug(
        "a classifier may average what a norm has made all alike",
        "blocks/rules.py",
        "if parts.pooling is None or not parts.ends_with_norm:",
        "if parts:",
        "tests/testing/test_classifiers.py::test_a_classifier_is_refused_exactly_where_the_traits_say_so",
    ),
    Bug(
        "classes weigh alike, whatever was asked for",
        "tasks/classification.py",
        "weights = self.class_weights[batch.label]",
        "weights = torch.ones_like(smoothed)",
        "tests/tasks/test_classification.py::test_the_loss_is_the_weighted_mean_over_texts",
    ),
    Bug(
        "smoothing gives mass to the right class",
        "tasks/loss.py",
        "others = -log_p.sum(-1) - nll",
        "others = -log_p.sum(-1)",
        "tests/tasks/test_loss.py::test_smoothing_spreads_over_all_classes_but_the_right_one",
    ),
    Bug(
        "rows of the confusion matrix are what was said",
        "tasks/classification_scores.py",
        "return matrix.to(torch.int64)",
        "return matrix.to(torch.int64).mT",
        "tests/tasks/test_classification_scores.py::test_rows_of_the_confusion_matrix_are_the_true_classes",
    ),
    # models and tasks
    Bug(
        "cross-attention sees the source's padding",
        "models/transformer.py",
        "memory_mask=Mask(keys=self.valid(source, source_padding)),",
        "",
        f"stack translator-{PLAIN} padding_has_no_influence",
    ),
    Bug(
        "embeddings are scaled, whatever was asked for",
        "models/embedding.py",
        "self.factor = math.sqrt(dim) if scale else 1.0",
        "self.factor = math.sqrt(dim)",
        OPTIONS + "test_embeddings_are_scaled_as_told",
    ),
    Bug(
        "embeddings are tied, whatever was asked for",
        "models/transformer.py",
        'shared if tie == "all" else Embedding(',
        "shared if True else Embedding(",
        OPTIONS + "test_embeddings_are_tied_as_told",
    ),
    Bug(
        "label smoothing gives mass to padding",
        "tasks/cross_entropy.py",
        "- logit_y.sum() - logits[:, pad].sum()",
        "- logit_y.sum()",
        "tests/tasks/test_cross_entropy.py::test_smoothing_is_what_other_toolkits_compute_when_padding_gets_nothing",
    ),
    Bug(
        "a finished sentence takes its neighbour's beam along",
        "search.py",
        "cache.reorder((rows[:, None] * width + parent[rows]).flatten())",
        "cache.reorder((rows[:, None] * width + parent).flatten()"
        "[: rows.numel() * parent.shape[1]])",
        "tests/test_search.py::test_a_sentence_is_decoded_alike_in_any_company",
    ),
    # residual connections
    Bug(
        "a sandwich has one norm twice",
        "residual/sandwich.py",
        "self.output_norm(",
        "self.norm(",
        RESIDUAL + "test_is_its_formula[sandwich]",
    ),
    Bug(
        "the outer norm of a sandwich is not told what is padding",
        "residual/sandwich.py",
        "*args), valid)",
        "*args))",
        "residual sandwich padding_has_no_influence",
    ),
    Bug(
        "the norm of a sublayer's output takes the sum",
        "residual/post_sublayer.py",
        "x + self.norm(self.branch(x, *args), valid)",
        "self.norm(x + self.branch(x, *args), valid)",
        "residual post_sublayer ends_with_norm_says_the_truth",
    ),
    Bug(
        "the norm of a sublayer's output takes its input",
        "residual/post_sublayer.py",
        "self.norm(self.branch(x, *args), valid)",
        "self.branch(self.norm(x, valid), *args)",
        "residual post_sublayer parallel_says_the_truth",
    ),
    Bug(
        "the weight of a deep residual connection does not grow with depth",
        "residual/deepnorm.py",
        "(2 * layers) ** 0.25",
        "2**0.25",
        RESIDUAL + "test_deepnorm_has_the_numbers_of_its_paper",
    ),
    Bug(
        "deep stacks scale the start of queries and keys too",
        "residual/deepnorm.py",
        '("query", "key", "gate", "attention")',
        '("gate", "attention")',
        RESIDUAL + "test_deepnorm_scales_the_start_of_values_outputs_and_feedforward_alone",
    ),
    Bug(
        "a branch that should start at zero starts at one",
        "residual/rezero.py",
        "nn.init.zeros_",
        "nn.init.ones_",
        RESIDUAL + "test_a_layer_with_rezero_starts_as_the_identity_and_learns",
    ),
    Bug(
        "the weight of a branch is not trained",
        "residual/rezero.py",
        "self.alpha * self.branch",
        "self.alpha.detach() * self.branch",
        "residual rezero gradients_reach_everything",
    ),
    Bug(
        "a gate has no rectifier before it",
        "residual/gated.py",
        "*args).relu()",
        "*args)",
        RESIDUAL + "test_is_its_formula[gated]",
    ),
    Bug(
        "a gate starts open",
        "residual/gated.py",
        "- self.bias).sigmoid()",
        "+ self.bias).sigmoid()",
        RESIDUAL + "test_a_gate_starts_close_to_the_identity_as_its_bias_says",
    ),
)
