r"""Mistakes that people make in this field, and the test that must catch each.

A mistake has three lines: its name; the function or class, as :func:`tests.testing.changes.find`
reads it, with its change; and the check, as :mod:`tests.testing.seeded` runs it. A change is one of
``OLD => NEW``, ``always ASKED``, ``never ASKED``, ``keyword NAME VALUE`` (without a value: none)
and ``returns RESULT``, which :mod:`tests.testing.changes` describes; a line that is indented deeper
goes on with the one before, and ``\n`` ends a line of code.
"""

import re
from typing import NamedTuple

from tests.testing.changes import Change, always, keyword, never, replace, returns


class Bug(NamedTuple):
    name: str
    where: str
    change: Change
    caught_by: str


def bug(name: str, changed: str, check: str) -> Bug:
    where, _, change = changed.strip().replace(r"\n", "\n").partition(": ")
    old, arrow, new = change.partition(" => ")
    word, _, rest = change.partition(" ")
    if arrow:
        made = replace(old, new)
    elif word == "keyword":
        made = keyword(*rest.split(" ", 1))
    else:
        made = {"always": always, "never": never, "returns": returns}[word](rest)
    return Bug(name, where, made, check.strip())


TABLE = r"""
# masks
a softmax of scores of -inf is not a number
    Mask.softmax: finite and _ => _
    tests/test_masks.py::test_softmax_of_scores_of_minus_infinity_is_that_of_the_weighting
NaN in padding enters a stack
    Positioned.zero_padding: x if keys is None else x.masked_fill(~keys[..., None], 0.0) => x
    stack encoder padding_has_no_influence_while_training
NaN in the padding of a memory enters a decoder
    Positioned.context: self.zero_padding(_, _1) => _
    tests/models/test_nan_in_padding.py::test_outputs_and_gradients_of_tokens_are_those_without_it
# batches of no text, texts of no token
the largest of no score is asked for
    masks:largest: never _
    attention euclidean empty_batches_and_texts_are_harmless
a weighting reads the first key of an empty axis
    Hardmax.forward: never _
    weighting hardmax empty_batches_and_texts_are_harmless
the first of no token is read
    Pooling.__call__: never not x.shape[1]
    pooling first empty_batches_and_texts_are_harmless
what is pooled of no token is not zero
    Pooling.__call__: x.new_zeros => x.new_ones
    pooling pooler a_text_of_no_token_gives_zeros
hypotheses of no sentence are counted
    CrossAttention.forward: always x.shape[0] != k.shape[0]
    stack translator empty_batches_and_texts_are_harmless_in_a_model
a step of no token empties the cache
    Average.mean: if x.shape[1]:\n    kept['sum'] = _ => kept['sum'] = _
    stack decoder-mixer=average a_step_of_no_token_changes_nothing
# sizes, devices, copies
a token of zeros is divided by its length
    components.norm.scale:Scale.forward: self.eps / self.dim => 0.0
    norm scale few_tokens_and_equal_numbers_are_harmless
there are two heads, whatever is asked for
    components.attention.trained_scale:TrainedScale.__init__: torch.empty(heads, 1, 1)
        => torch.empty(2, 1, 1)
    attention trained_scale sizes_are_those_that_it_is_given
a table is made on the CPU, wherever the tokens are
    Sinusoidal.embed: keyword device
    position sinusoidal what_it_makes_is_where_its_inputs_are
what the last call computed is kept with its graph
    components.attention.trained_scale:TrainedScale.factors: self.scale * q
        => setattr(self, 'kept', self.scale * q) or self.kept
    attention trained_scale a_copy_and_a_state_dict_hold_all
a schedule takes a warmup before its beginning
    learning/optim:Warmup.__init__: check_range(_, warmup, ge=0) => warmup
    schedule constant invalid_values_are_refused
a query of 0 gets a gradient of 10^12
    components.attention.cosine:direction: length.masked_fill(length < EPS, math.inf)
        => length.clamp(min=EPS)
    attention cosine queries_and_keys_of_zeros_are_harmless
equal scores share the slope of a sparse weighting's threshold
    Sparsemax.forward: tau = scores.masked_fill(_, 0.0).sum(-1, keepdim=True) - 1.0; tau = tau /
            count(~_)
        => sums = scores.sort(-1, descending=True).values.cumsum(-1);tau = ((sums - 1.0) /
            ranks(scores)).amax(-1, keepdim=True)
    weighting sparsemax the_slope_of_a_constant_sum_is_zero
the mask is ignored
    Mask.boolean: always self.keys is None
    attention scaled_dot_product hidden_keys_have_no_influence
a mask of queries and keys counts only where no key is padding
    Mask.boolean: dense(self.allowed, _1, _2, _)
        => None if self.keys is not None else dense(self.allowed, _1, _2, _)
    attention scaled_dot_product hidden_keys_have_no_influence
a kernel forgets the mask of queries and keys
    needs_no_matrix: _1 and mask.allowed is None and _ => _1 and _
    attention scaled_dot_product hidden_keys_have_no_influence
the causal mask lets the next token through
    Mask.boolean: _ <= place => _ <= place + 1
    tests/test_masks.py::test_masks_of_all_kinds_are_combined
the causal mask hides the token itself
    Mask.boolean: _ <= place => _ < place
    tests/test_masks.py::test_masks_of_all_kinds_are_combined
the causal mask stands at the top left, also in a cached step
    Mask.boolean: self.first_query(q, k) => 0
    stack decoder one_token_at_a_time_equals_all_at_once
what is hidden is only made 1000 smaller
    Mask.softmax: if _:\n    scores = _1\nif _2:\n    scores = scores.masked_fill(_3, -inf)
        => if _:\n    scores = _1\nif _2:\n    scores = scores.masked_fill(_3, -1000.0)
    attention scaled_dot_product hidden_keys_have_no_influence
a query that may look at nothing is forgotten
    Mask.softmax: always empty is None
    attention scaled_dot_product the_output_is_the_softmax_of_its_own_scores
# positions
positions count from 0 at each cached step
    Positioned._positions: return k_pos[:, start:], k_pos
        => return k_pos[:, : arg_0.shape[1]], k_pos
    stack decoder-position=rotary one_token_at_a_time_equals_all_at_once
padding on the left counts as positions
    Positioned._positions: valid is None or (cache is None and mask.on_right) => True
    stack encoder padding_has_no_influence
padding counts for the length of a sentence
    Stack.run: always mask is None or mask.keys is None
    stack encoder-position=unit_interval padding_has_no_influence
the bias is not added
    SelfAttention.forward: self.attend(x, q, k, v, _, context.bias) => self.attend(x, q, k, v, _)
    stack encoder-position=relative_bias order_matters_if_and_only_if_there_are_positions
a decoder's relative bias looks both ways
    create_position: keyword causal False
    tests/testing/test_options.py::test_a_position_is_told_where_it_stands[relative_bias]
half-split rotary turns the wrong way
    rotate_halves: (-sin, sin) => (sin, -sin)
    tests/position/test_position.py::test_rotary_equals_llama_and_over_a_fraction_neox[llama-1.0]
channels beyond the rotated ones are dropped
    Rotation.__call__: (self(first), rest) => (self(first), 0 * rest)
    tests/position/test_position.py::
        test_rotary_equals_llama_and_over_a_fraction_neox[gpt_neox-0.25]
a fraction of a head is rotated as slowly as all of it
    Rotary.angles: -self.rotated => -2 * self.rotated
    tests/position/test_position.py::
        test_rotary_equals_llama_and_over_a_fraction_neox[gpt_neox-0.25]
the factor of YaRN multiplies scores once
    YaRN.__post_init__: _ + 1.0 => (_ + 1.0) ** 0.5
    tests/position/test_position.py::test_scaled_rotary_equals_transformers
fast pairs are scaled and slow ones stay
    Llama3.__call__: stays + (1 - stays) / _ => 1 - stays + stays / _
    tests/position/test_position.py::test_scaled_rotary_equals_transformers
sines and cosines are concatenated in the wrong order
    Sinusoidal.embed: torch.cat(waves, -1) => torch.cat(waves[::-1], -1)
    tests/position/test_position.py::test_sinusoids_equal_marian
fairseq's frequencies are the paper's
    Sinusoidal.__init__: never endpoint
    position sinusoidal every_option_changes_something
a trained penalty becomes a reward
    Kerple.bias: -r1.exp() * torch.log1p(_) => -r1 * torch.log1p(_)
    tests/position/test_position.py::test_kerple_is_its_formula
a network of the distance sees no direction
    ContinuousBias.table: distance.sign() * _ => _
    tests/position/test_position.py::test_continuous_bias_equals_the_network_of_swin_v2
a network of the distance is computed in half precision
    ContinuousBias.table: without_autocast(_)
        => torch.autocast('cpu', enabled=torch.is_autocast_enabled('cpu'))
    tests/position/test_position.py::
        test_numbers_are_as_exact_where_half_precision_is_the_default[continuous_bias]
# the cache
a key is cached before it is turned
    SelfAttention.forward: if _2:\n    q, k = _1\nk = _4\nif _3:\n    k, v = _
        => if _3:\n    k, v = _\nif _2:\n    q, k = _1\nk = _4
    stack decoder-position=rotary one_token_at_a_time_equals_all_at_once
keys are made of what keys made
    SelfAttention.forward: if context.cache is not None:\n    k, v = _
        => if context.cache is not None:\n    k, v = _\n    k = self.attention.prepare_keys(k)
    stack decoder-attention=additive one_token_at_a_time_equals_all_at_once
the cache does not know how far decoding has come
    Stack.forward: cache.length += x.shape[1] => pass
    stack translator one_token_at_a_time_equals_all_at_once
beams do not move in the cache
    DecoderCache.reorder: layer.reorder(rows) => layer.reorder(rows.sort().values)
    stack translator a_cache_can_be_reordered
cross-attention keeps the wrong sentences
    DecoderCache.keep_batch: layer.reorder(sentences) => layer.reorder(sentences.flip(0))
    stack translator a_cache_can_be_reordered
the source's padding stays with the first sentences
    Mask.select: None if _ else keys[rows] => None if _ else keys[:len(rows)]
    stack translator a_cache_can_be_reordered
padding of a prompt is seen by the tokens that follow
    Positioned.context: keys = cache.append_non_padding(_, _1, _2)
        => cache.append_non_padding(_, _1, _2); keys = None
    tests/models/test_encoder_decoder.py::test_generation_with_a_cache_equals_one_pass[additive]
padding of a prompt counts as positions of the tokens that follow
    Positioned._positions: _ + (earlier[:, -1:] if start else -1) => _ + start - 1
    tests/models/test_encoder_decoder.py::test_generation_with_a_cache_equals_one_pass[additive]
rows move in the cache without their padding
    DecoderCache.reorder: self.non_padding.index_select(0, rows)
        => self.non_padding.index_select(0, rows * 0)
    tests/models/test_encoder_decoder.py::
        test_a_cache_holds_the_memory_and_follows_its_rows[Decoder]
# norms
padding counts in batch statistics
    Batch.forward: wide = wide.masked_fill(padded, 0.0) => wide = wide + 0.0
    norm batch padding_has_no_influence
padding counts in the number of tokens of a text
    Instance.forward: valid.sum(1)[:, None, None].clamp(min=1) => arg_0.shape[1]
    norm instance padding_has_no_influence
the one length of a norm does not reach its gradient
    Scale.forward: self.g.to => self.g.detach().to
    norm scale gradients_reach_every_parameter_and_real_tokens_alone
the one length of a norm is the root mean square
    Scale.reset_parameters: math.sqrt(self.dim) => 1.0
    tests/norm/test_norm.py::test_scale_is_one_length_times_the_direction
the slope of a dynamic tanh stands outside
    DyT.forward: torch.tanh(alpha * _) => alpha * torch.tanh(_)
    tests/norm/test_norm.py::test_dyt_is_a_tanh_with_trained_width_and_height
a dynamic tanh starts at another width than its option says
    DyT.__init__: self.initial_alpha = alpha => self.initial_alpha = 1.0
    norm dyt every_option_changes_something
a norm without bias has one
    Layer.__init__: always _
    norm layer every_option_changes_something
a centred norm starts at twice its size
    RMS.reset_parameters: never _
    tests/norm/test_norm.py::test_a_centred_rms_norm_starts_as_a_plain_one
the stack forgets to tell its norms what is padding
    Positioned.context: keyword valid None
    stack encoder-norm=instance padding_has_no_influence
a norm after the residual connection is not told what is padding
    Post.forward: self.norm(_, valid) => self.norm(_, None)
    stack encoder-norm=batch-residual=post padding_has_no_influence_while_training
running statistics are not saved
    Batch.__init__: self.register_buffer('running_mean', _)
        => self.register_buffer('running_mean', _, persistent=False)
    tests/norm/test_norm.py::test_the_state_dict_holds_what_batch_has_seen
the final norm is missing
    Stack.run: always self.final_norm is None
    stack encoder gradients_reach_every_parameter
a decoder may have a norm that sees the future
    check_clashes: rule.broken(_) => (rule.broken(_) and rule.name != 'leaky-norm')
    tests/testing/test_stacks.py::test_a_model_is_refused_exactly_where_the_traits_say_so
# feed-forward layers
a sigmoid stands where its product with the input should
    SiLU.activation: returns F.sigmoid(arg_0)
    tests/feedforward/test_feedforward.py::test_is_its_formula[silu-False]
Swish has a slope of its own
    SiLU.activation: returns arg_0 * F.sigmoid(1.702 * arg_0)
    tests/feedforward/test_feedforward.py::test_is_its_formula[silu-True]
the rectifier is not squared
    ReLUSquared.activation: returns F.relu(arg_0, inplace=True).clone()
    tests/feedforward/test_feedforward.py::test_is_its_formula[relu_squared-False]
the square comes before the rectifier
    ReLUSquared.activation: returns F.relu(arg_0.square())
    tests/feedforward/test_feedforward.py::test_is_its_formula[relu_squared-True]
the rectifier writes into a view
    ReLU.activation: returns F.relu(arg_0, inplace=True)
    tests/models/test_modules.py::
        test_nothing_is_changed_in_place_through_a_view[euclidean-rms-none-relu]
a kernel for GPUs takes a tensor that holds no data
    flex_attention_applies: type(_) in _1 => True
    tests/attention/test_flex.py::test_the_switch_takes_0_and_1
the gate has no rectifier
    ReGLU.activation: F.relu(_) => _
    tests/feedforward/test_feedforward.py::test_is_its_formula[reglu-False]
the gate is a step
    ReGLU.activation: returns (arg_0 > 0).to(arg_0)
    tests/feedforward/test_feedforward.py::test_is_its_formula[reglu-True]
a bilinear layer has an activation
    Bilinear.activation: returns arg_0.sigmoid()
    tests/feedforward/test_feedforward.py::test_is_its_formula[bilinear-False]
the gate of a bilinear layer is not read
    Bilinear.activation: returns arg_0 * 0 + 1
    tests/feedforward/test_feedforward.py::test_is_its_formula[bilinear-True]
gate and value are exchanged
    Gated.between: gate, value = _ => value, gate = _
    tests/feedforward/test_feedforward.py::test_is_its_formula[reglu-False]
a gated layer takes two thirds of its width
    Plain.__init__: hidden or self.usual_width(dim)
        => (hidden or 4 * dim) * self.usual_width(12) // 48
    tests/feedforward/test_feedforward.py::test_is_its_formula[swiglu-False]
the weights of experts do not sum to 1
    Mixture.forward: weights / weights.sum(-1, keepdim=True) => weights * 1.0
    tests/feedforward/test_mixture.py::test_a_token_gets_the_weighted_sum_of_its_experts[2]
tokens come back in the order of their experts
    Mixture.routed: _.index_copy(0, order, by_expert) => _.copy_(by_expert)
    tests/feedforward/test_mixture.py::test_a_token_gets_the_weighted_sum_of_its_experts[2]
padding counts in the balance loss
    Mixture.measure: (_, probs.sum(0) / n) => (_, probs.sum(0) / len(probs))
    feedforward mixture padding_has_no_influence
the balance loss has no gradient
    Mixture.measure: share * prob => share * prob.detach()
    feedforward mixture auxiliary_loss_says_the_truth
a layer does not tell its mixture what is padding
    TransformerLayer.sublayers: never self.has_auxiliary_loss
    tests/feedforward/test_mixture.py::test_padding_does_not_count_in_the_loss_of_a_model
auxiliary losses are logged and not trained
    Task.summed: always _
    tests/tasks/test_auxiliary_losses.py::
        test_the_loss_of_a_step_is_the_mean_and_the_weighted_auxiliary_losses
the approximation of gelu is accepted and not used
    GELU.activation: keyword approximate 'none'
    feedforward gelu every_option_changes_something
the approximation of geglu is accepted and not used
    GEGLU.activation: keyword approximate 'none'
    feedforward geglu every_option_changes_something
# blocks
the residual connection is dropped
    Pre.forward: x + _ => _
    tests/testing/test_options.py::
        test_layers_of_nothing_pass_on_what_they_get_if_there_is_a_residual_connection[pre]
the temperature is accepted and not used
    SelfOrCrossAttention.attend: keyword temperature 1.0
    tests/testing/test_options.py::test_scores_are_divided_by_the_temperature
dropout goes on outside training
    Residual.branch: always _
    tests/testing/test_options.py::test_dropout_acts_in_training_and_nowhere_else[0.4-pre]
dropout does not scale what it keeps
    dropout: STEPS / (STEPS - steps) => 1.0
    tests/feedforward/test_feedforward.py::test_dropout_falls_on_the_hidden_layer[relu]
the width of values is accepted and not used
    SelfOrCrossAttention.__init__: options.value_head_dim or head_dim => head_dim
    tests/testing/test_options.py::
        test_every_option_of_a_model_changes_something[translator-value_head_dim]
shared keys go to the wrong heads
    repeat_kv: 'b h n c -> b (h g) n c' => 'b h n c -> b (g h) n c'
    tests/testing/test_options.py::
        test_keys_and_values_are_shared_by_neighbouring_heads[scaled_dot_product]
queries that share the projection of keys are twice as large
    SelfOrCrossAttention.queries_keys_values: queries[0] if queries else k
        => queries[0] if queries else 2 * k
    tests/testing/test_options.py::
        test_one_projection_for_queries_and_keys_equals_two_that_are_equal
an option of a component is accepted and not used
    components.attention.cosine:Cosine.__init__: keyword scale 10.0
    attention cosine every_option_changes_something
a number that no norm can add is taken
    Layer.__init__: check_range(_, eps, gt=0) => eps
    norm layer invalid_values_are_refused
# classifiers
padding counts in the mean
    Mean.forward: valid.sum(1, keepdim=True).clamp(min=1) => arg_0.shape[1]
    pooling mean padding_has_no_influence
padding is zero, and zero the largest of negative numbers
    Max.forward: float('-inf') => 0.0
    pooling max padding_has_no_influence
the last token is the last place
    Last.token_index: _.argmax(1) => _.argmax(1) * 0
    pooling last padding_has_no_influence
the first token is the first place
    First.token_index: _.argmax(1) => _.argmax(1) * 0
    pooling first padding_has_no_influence
a continued text goes on after its stop token
    _write: not ended[row] and _ => _
    tests/test_search.py::test_a_host_that_is_a_step_late_finds_the_same[1-0.0]
top_p leaves out the token that reaches it
    filter_logits: before = _ - p; ordered = ordered.masked_fill(before >= top_p, _1)
        => before = _ - p; ordered = ordered.masked_fill(_ >= top_p, _1)
    tests/models/test_language_model.py::test_filters_are_those_of_transformers
the embeddings are not normalised
    Stack.run: self.embedding_norm(x) => x + 0 * self.embedding_norm(x)
    tests/models/test_architectures.py::test_an_architecture_is_hugging_faces[bart]
every token is of type 0
    Embedding.forward: always types is None
    tests/models/test_masked_language_model.py::test_a_type_adds_its_vector_and_none_is_type_0
an architecture wins over what is set on top
    with_stack_options: {**_, **kwargs, 'like': None} => {**kwargs, **_, 'like': None}
    tests/models/test_architectures.py::
        test_every_key_can_be_changed_on_top_and_the_configuration_says_all
experts of gpt-oss do not add 1 to the value
    Mixture.gated: value + 1 => value
    tests/feedforward/test_mixture.py::test_clamped_experts_with_biases_equal_gpt_osss
the pooler reads the first place of a text that begins later
    Pooler.forward: self.first(x, valid) => x[:, 0]
    pooling pooler padding_has_no_influence
the pooler answers to a text of no token
    Pooling.__call__: always valid is None
    pooling pooler a_text_of_no_token_gives_zeros
runs of tokens reach into what stands in the padding
    components.pooling.convolution:Convolution.forward: x.masked_fill(~valid[..., None], 0.0)
        => x.clone()
    pooling convolution padding_has_no_influence
in training, the variance of an instance norm is that of all texts
    components.norm.instance:Instance.forward: centred.square().sum(1, keepdim=True) / count
        => (centred.square().sum(1, keepdim=True) / count).mean(0) if self.training else
            centred.square().sum(1, keepdim=True) / count
    norm instance a_text_does_not_see_the_others_of_its_batch
runs of tokens end with the batch and not with their text
    components.pooling.convolution:Convolution.forward: keyword padding 'same'
    pooling convolution padding_has_no_influence
padding matches by zero, and zero is more than a text's own best match
    components.pooling.convolution:Convolution.forward: F.relu(_) => _
    pooling convolution a_text_does_not_see_the_others_of_its_batch
the pooling is not told what is padding
    TransformerClassifier.forward: self.pooling(_, _1) => self.pooling(_)
    classifier plain padding_has_no_influence
a causal classifier sees later tokens
    TransformerClassifier.__init__: keyword causal False
    classifier side=decoder tokens_of_a_causal_classifier_see_no_later_ones
a classifier's encoder sees padding
    TransformerClassifier.encode: keyword mask
    classifier plain a_text_does_not_see_the_others_of_its_batch
a classifier may average what a norm has made all alike
    check_clashes: rule.broken(_) => (rule.broken(_) and rule.name != 'constant-pooling')
    tests/testing/test_stacks.py::test_a_model_is_refused_exactly_where_the_traits_say_so
classes weigh alike, whatever was asked for
    ClassificationTask.losses: self.class_weights[_] => torch.ones_like(_, dtype=torch.float32)
    tests/tasks/test_classification.py::test_the_loss_is_the_weighted_mean_over_texts
smoothing gives mass to the right class
    class_losses: -_ - nll => -_
    tests/tasks/test_loss.py::test_smoothing_spreads_over_all_classes_but_the_right_one
rows of the confusion matrix are what was said
    tasks/classification:confusion: _.view(_1, -1) => _.view(_1, -1).mT
    tests/tasks/test_classification.py::test_rows_of_the_confusion_matrix_are_the_true_classes
# models and tasks
cross-attention sees the source's padding
    Transformer.hidden: keyword memory_mask
    stack translator padding_has_no_influence
embeddings are scaled, whatever was asked for
    Embedding.__init__: _ if scale else 1.0 => _
    tests/testing/test_options.py::test_embeddings_are_scaled_as_told
embeddings are tied, whatever was asked for
    Transformer.__init__: self.target_embedding if joint else _ => self.target_embedding
    tests/testing/test_options.py::test_embeddings_are_tied_as_told
label smoothing gives mass to padding
    chunk_losses: other * logits[:, pad] => 0.0
    tests/tasks/test_cross_entropy.py::
        test_smoothing_is_what_other_toolkits_compute_when_padding_gets_nothing
batches are padded with 0, whatever the tokenizer says
    data/batches:padded: special.fill => 0
    tests/tasks/test_special_ids.py::test_batches_take_the_ids_that_they_are_given
masks are the same in each epoch
    Masking.__call__: random_bits(self.seed, epoch, rows, ids.shape[1])
        => random_bits(self.seed, 0, rows, ids.shape[1])
    tests/tasks/test_masked_language_modeling.py::
        test_masks_are_a_function_of_seed_epoch_text_and_place_alone
a token to find is always masked
    Masking.__call__: fraction(mixed(_)) => 0.0 * fraction(_)
    tests/tasks/test_masked_language_modeling.py::
        test_of_the_tokens_to_find_8_of_10_are_masked_and_1_is_another_one
a document without its last part
    in_parts: -(-lengths // most) => lengths // most
    tests/tasks/test_masked_language_modeling.py::
        test_a_batch_holds_every_token_once_framed_and_what_its_masks_hide
documents begin with the end
    DocumentDataset.__getitem__: self.begins[_] => self.special.eos
    tests/tasks/test_language_modeling.py::test_each_token_is_predicted_once_from_the_one_before
padding is read off its id
    DocumentBatch.mask: Mask.right(self.lengths, n) => Mask(keys=self.tokens != 2)
    tests/tasks/test_padding.py::test_prompts_are_continued_as_they_are_alone
mass of the end is no mass where padding has its id
    SpecialIds.unpredicted: None if _ else self.pad => self.pad
    tests/tasks/test_padding.py::test_smoothing_gives_mass_to_every_id_that_can_be_right
search ends with the first of several ends alone
    search:search: special.ends => (special.eos,)
    tests/tasks/test_special_ids.py::test_a_text_ends_with_any_of_several_ids
a beam ends though an open hypothesis can become the best
    _Found.close: reachable <= finished[:, 0] => True
    tests/test_search.py::test_no_open_hypothesis_could_have_become_better_than_what_is_returned
# pairs of texts, labels of words
a separator belongs to the second text
    models/classifier:types_of: found.cumsum(1) - found => found.cumsum(1)
    tests/tasks/test_pairs.py::test_tokens_after_the_first_separator_are_of_the_second_type
each text of a pair has half of the places
    data/batches:truncate: max(left - left // 2, left - len(rest)) => left - left // 2
    tests/data/test_pairs.py::test_the_longer_text_is_truncated_first
the last token of a word has its label
    WordDataset.__getitem__: lengths.cumsum(1) - lengths => lengths.cumsum(1) - 1
    tests/tasks/test_token_classification.py::test_the_first_token_of_a_word_has_its_label
words that are not read are predicted
    TokenClassificationTask.predicted: logits.argmax(-1).masked_fill(_, NO_LABEL)
        => logits.argmax(-1)
    tests/tasks/test_token_classification.py::test_what_a_truncated_text_lacks_is_missed
a span goes on with words of another kind
    spans_of: kind != begun.label => False
    tests/tasks/test_token_classification.py::test_scores_are_those_of_seqeval_on_1000_random_cases
kinds that do not occur are in the mean
    TokenClassificationTask.compute_scores: spans[spans.sum(1) > 0] => spans
    tests/tasks/test_token_classification.py::test_scores_are_those_of_seqeval_on_1000_random_cases
a finished sentence takes its neighbour's beam along
    _beam: (_ + parent[rows]).flatten() => (_ + parent).flatten()[:rows.numel() * parent.shape[1]]
    tests/test_search.py::test_a_sentence_is_decoded_alike_in_any_company
# what several tasks share, their scores, intervals and pictures
beams of a continuation are not divided by their penalty
    Search.penalty: returns 1.0
    tests/test_search.py::test_search_is_what_its_restatement_finds
a continuation is the first hypothesis that ended
    continuations: max(_, key=_1) => _[0]
    tests/models/test_language_model.py::test_beams_find_what_those_of_transformers_do
documents of a row see each other
    DocumentBatch.mask: keyword allowed
    tests/tasks/test_language_modeling.py::
        test_documents_in_one_row_have_the_loss_that_they_have_alone
positions of packed documents go on from one to the next
    LanguageModelingTask.hidden: keyword positions None
    tests/tasks/test_language_modeling.py::
        test_documents_in_one_row_have_the_loss_that_they_have_alone
each part of a document is its first one
    DocumentDataset.__getitem__: place = position + np.repeat(_, _1) => place = position
    tests/tasks/test_language_modeling.py::test_each_token_is_predicted_once_from_the_one_before
a document's line end is no byte
    tasks/language_modeling:size_of: _ + 1 => _ - 1
    tests/tasks/test_language_modeling.py::
        test_perplexity_and_bits_per_byte_are_those_of_the_documents
each document counts alike in bits per byte
    LanguageModelingTask.compute_scores: {_: _1, _2: _3 / _4.sum()} => {_: _1, _2: (_3 / _4).sum()}
    tests/tasks/test_scores.py::test_scores_of_language_models_are_sums_over_all_tokens
special tokens are masked
    Masking.__call__: np.isin(_, _1, invert=True) => np.isin(_, [-1], invert=True)
    tests/tasks/test_masked_language_modeling.py::
        test_a_batch_holds_every_token_once_framed_and_what_its_masks_hide
words are masked in part
    Masking.__call__: np.take_along_axis(rank, _, 1) => rank
    tests/tasks/test_masked_language_modeling.py::test_words_are_masked_whole
tokens that are not to be found are masked
    Masking.__call__: (np.where(_, _1, _2), _) => (_1, _)
    tests/tasks/test_masked_language_modeling.py::
        test_of_the_tokens_to_find_8_of_10_are_masked_and_1_is_another_one
a pair is read without its separator
    PairEncoder.encode: [*_, *_1, *_2] => [*_, *_2]
    tests/data/test_pairs.py::test_both_texts_are_in_a_row_with_a_separator_between_them
a model is not told which text of a pair a token is of
    TransformerClassifier.encode: types_of(_, _1) => _ * 0
    tests/tasks/test_pairs.py::test_tokens_after_the_first_separator_are_of_the_second_type
a word is encoded without the one before it
    WordEncoder.words: len(_) if _1 else 0 => 0
    tests/tasks/test_token_classification.py::test_tokens_of_words_are_those_of_the_text
a word begins at the mark of the text's begin
    WordDataset.__getitem__: self.special.cls is not None => False
    tests/tasks/test_token_classification.py::test_a_mark_before_the_text_is_no_word
labels are scored with another threshold than the model's
    MultilabelClassificationTask.compute_scores: self.threshold.cpu() => 0.5
    tests/tasks/test_scores.py::test_scores_are_those_of_scikit_learn
a label that each text has is ranked
    MultilabelClassificationTask.compute_scores: label.any(0) & ~label.all(0) => label.any(0)
    tests/tasks/test_scores.py::test_scores_are_those_of_scikit_learn
F1 is over texts, not over classes
    ClassificationTask.compute_scores: (_ / _1)[_2].mean() => _.sum() / _1.sum()
    tests/tasks/test_scores.py::test_scores_are_those_of_scikit_learn
texts of an interval are drawn without replacement
    Scores.intervals: _.integers(_1, size=_2)
        => _.permuted(np.tile(np.arange(_1), (DRAWS, 1)), axis=1)
    tests/tasks/test_resampling.py::test_the_interval_of_a_mean_is_that_of_its_standard_error
an interval leaves out twice as much
    Scores.intervals: (1 - COVERAGE) / 2 => 1 - COVERAGE
    tests/tasks/test_resampling.py::test_the_interval_of_a_mean_is_that_of_its_standard_error
a share of texts has the interval of a mean
    Scores.intervals: 'wilson' => 'exact'
    tests/tasks/test_resampling.py::test_a_share_of_texts_has_the_interval_of_wilson
a text is counted in the interval around its probability
    tasks/classification:ClassificationTask.compute_scores: _.ceil() => _.round()
    tests/tasks/test_classification.py::
        test_the_calibration_error_is_the_mean_gap_over_intervals_of_probability
the model goes on when the time of a request is over
    Model._check: time.monotonic() > _ => False
    tests/serving/test_serving.py::test_time_that_is_over_is_an_error_and_stops_the_model
# residual connections
a sandwich has one norm twice
    Sandwich.forward: self.output_norm => self.norm
    tests/residual/test_residual.py::test_is_its_formula[sandwich]
the outer norm of a sandwich is not told what is padding
    Sandwich.forward: self.output_norm(_, valid) => self.output_norm(_)
    residual sandwich padding_has_no_influence
the norm of a sublayer's output takes the sum
    PostSublayer.forward: x + self.norm(_, valid) => self.norm(x + _, valid)
    residual post_sublayer ends_with_norm_says_the_truth
the norm of a sublayer's output takes its input
    PostSublayer.forward: self.norm(self.branch(x, *args), valid)
        => self.branch(self.norm(x, valid), *args)
    residual post_sublayer parallel_says_the_truth
the weight of a deep residual connection does not grow with depth
    alpha_and_beta: 2 * layers => 2
    tests/residual/test_residual.py::test_deepnorm_has_the_numbers_of_its_paper
deep stacks scale the start of queries and keys too
    SelfOrCrossAttention.value_matrices: [*value_matrices(_1), *value_matrices(_)]
        => [one.weight for one in (self.query, self.key, _1, _)]
    mixer multihead value_matrices_say_the_truth
deep stacks scale the router of experts
    Mixture.value_matrices: [_, _1.weight] => [_, _1.weight, self.router.weight]
    feedforward mixture value_matrices_say_the_truth
deep stacks leave the values of linear attention as they are
    LinearAttention.value_matrices: returns [self.output.weight]
    mixer linear_attention value_matrices_say_the_truth
a residual connection scales all matrices, whatever the sublayer declares
    DeepNorm.reset_parameters: value_matrices(_) => [one for one in _.parameters() if one.dim() > 1]
    residual deepnorm of_its_sublayer_it_scales_value_matrices_alone
a translator's encoder takes the constants of an encoder alone
    Transformer.__init__: keyword decoder_layers 0
    tests/residual/test_residual.py::
        test_deepnorm_of_a_translator_takes_the_depths_of_both_its_sides
a translator's decoder takes the constants of a decoder alone
    alpha_and_beta: if cross:\n    return _ => if False:\n    return _
    tests/residual/test_residual.py::
        test_deepnorm_of_a_translator_takes_the_depths_of_both_its_sides
a branch that should start at zero starts at one
    ReZero.reset_parameters: nn.init.zeros_ => nn.init.ones_
    tests/residual/test_residual.py::test_a_layer_with_rezero_starts_as_the_identity_and_learns
the weight of a branch is not trained
    ReZero.forward: self.alpha => self.alpha.detach()
    residual rezero gradients_reach_every_parameter_and_real_tokens_alone
a gate has no rectifier before it
    components.residual.gated:Gated.forward: _.relu() => _
    tests/residual/test_residual.py::test_is_its_formula[gated]
a gate starts open
    components.residual.gated:Gated.forward: _ - self.bias => _ + self.bias
    tests/residual/test_residual.py::test_a_gate_starts_close_to_the_identity_as_its_bias_says
# differential attention
the second map is added
    Differential.softmax_attention: _ - _1 => _ + _1
    attention differential the_output_is_the_softmax_of_its_own_scores
heads that are neighbours are a pair
    Differential.normalised: 'b p q (two e) -> b (p two) q e' => 'b p q (two e) -> b (two p) q e'
    tests/attention/test_differential.py::test_outputs_and_gradients_are_those_of_diffllama
the weight of the second map does not grow with depth
    Differential.__init__: 0.8 - 0.6 * math.exp(-0.3 * layer) => 0.2
    tests/attention/test_differential.py::test_outputs_and_gradients_are_those_of_diffllama
an attention that mixes heads is given one head's weights for all
    MultiheadAttention._attend: self.attention.combine(weights, v) => weights @ v
    tests/models/test_torch_attention.py::
        test_heads_of_any_width_and_grouped_keys_work_with_every_attention
# weightings
a number of keys counts those that are hidden
    components.weighting._visible:count: visible.sum(-1, keepdim=True).clamp(min=1)
        => visible.new_full((*visible.shape[:-1], 1), visible.shape[-1], dtype=torch.int64)
    weighting relu padding_has_no_influence
a key that a bias hides counts as visible
    visible_keys: finite if _ else finite & visible => torch.ones_like(finite) if _ else visible
    weighting uniform a_score_of_minus_infinity_hides_as_the_mask_does
softmax reads the mask and not the scores of -inf
    Softmax.forward: returns arg_1.softmax(arg_0, finite=True)
    weighting softmax a_score_of_minus_infinity_hides_as_the_mask_does
softmax keeps a little weight for hidden keys
    Softmax.forward: returns arg_1.softmax(arg_0) + 1e-09
    weighting softmax hidden_keys_have_no_weight
the sink takes no weight
    softmax_with_sink: softmax(_)[..., :-1] => softmax(_[..., :-1]) + 0 * arg_2
    weighting sink softmax_says_the_truth
the sink does not learn
    Sink.forward: self.sink => self.sink.detach()
    weighting sink gradients_reach_every_parameter_and_real_tokens_alone
one is added to every exponential
    SoftmaxPlusOne.forward: scores.new_zeros(1, 1, 1)
        => scores.new_full((1, 1, 1), scores.shape[-1]).log()
    weighting softmax_plus_one padding_has_no_influence
the bias of a sigmoid is that of all keys
    Sigmoid.forward: count(visible).to(scores.dtype) => scores.new_tensor(scores.shape[-1])
    weighting sigmoid padding_has_no_influence
a hidden key has the sigmoid of nothing
    Sigmoid.forward: float('-inf') => -30.0
    weighting sigmoid hidden_keys_have_no_weight
rectified scores are a sum and no mean
    ReLU.forward: _ / count(visible) => _
    tests/weighting/test_weighting.py::test_weights_are_their_formula_over_the_visible_keys[relu]
a rectifier leaks
    ReLU.forward: scores.relu() => scores.clamp(min=0.01)
    weighting relu needs_positive_scores_says_the_truth
the threshold of sparsemax is of all keys
    threshold: largest(_) => _[..., -1:]
    tests/weighting/test_weighting.py::test_sparse_weights_are_those_of_the_entmax_package
no gradient passes the threshold of sparsemax
    Sparsemax.forward: scores - tau => scores - tau.detach()
    weighting sparsemax surrogate_gradient_says_the_truth
entmax does not halve its scores
    Entmax.forward: _ / 2.0 => _
    tests/weighting/test_weighting.py::test_sparse_weights_are_those_of_the_entmax_package
the support of entmax is one key too small
    support: size - 1 => (size - 2).clamp(min=0)
    tests/weighting/test_weighting.py::test_sparse_weights_are_those_of_the_entmax_package
the best k are k - 1
    TopK.forward: _[..., -1:] => _[..., -2:-1]
    tests/weighting/test_weighting.py::test_weights_are_their_formula_over_the_visible_keys[top_k]
hidden keys are among the best k
    TopK.forward: _.masked_fill(_1, _2) => _
    weighting top_k hidden_keys_have_no_weight
a hard maximum has no gradient
    Hardmax.forward: soft - soft.detach() => 0 * soft
    weighting hardmax surrogate_gradient_says_the_truth
the best key is a hidden one
    Hardmax.forward: _.masked_fill(~visible, float('-inf')) => _
    weighting hardmax hidden_keys_have_no_weight
scores as weights hide nothing
    Identity.forward: returns arg_0.clamp(min=-10000.0)
    weighting identity hidden_keys_have_no_weight
scores as weights lose their sign
    Identity.forward: scores.masked_fill(_, 0.0) => scores.masked_fill(_, 0.0).relu()
    weighting identity needs_positive_scores_says_the_truth
the mean is over hidden keys too
    Uniform.forward: visible.to(scores.dtype) / count(visible)
        => visible.to(scores.dtype) / scores.shape[-1]
    weighting uniform padding_has_no_influence
a mean looks at scores
    Uniform.forward: visible.to(scores.dtype) => (visible & (scores > 0)).to(scores.dtype)
    weighting uniform ignores_scores_says_the_truth
# mixers
the mean is over padding too
    Average.mean: x = x.masked_fill(~_[..., None], 0.0) => pass
    mixer average padding_has_no_influence
the mean forgets what the cache has summed
    Average.mean: never 'sum' in kept
    stack decoder-mixer=average one_token_at_a_time_equals_all_at_once
the sum of earlier chunks has that of its own
    causal_sums: states[:, :, :-1] => states[:, :, 1:]
    stack decoder-mixer=linear_attention a_token_has_influence_on_itself_and_whatever_may_look_at_it
the denominator counts padding
    LinearAttention.attend: k, v = k.masked_fill(_, 0.0), v.masked_fill(_, 0.0)
        => v = v[..., :-1].masked_fill(_, 0.0); v = F.pad(v, (0, 1), value=1.0)
    mixer linear_attention padding_has_no_influence
a recurrent network reads padding from the end
    GRU.forward: states(self.back, packing.reverse(x)) => states(self.back, x.flip(1))
    mixer gru padding_has_no_influence
the state after a prompt is that of its padding
    GRU.forward: packing.last(torch.cat([state, y], 1), 1) => y[:, -1:]
    mixer gru a_prompt_may_be_padded
the kernel of a decoder stands in the middle
    components.mixer.convolution:Convolution.__init__: never causal
    stack decoder-mixer=convolution a_token_has_influence_on_itself_and_whatever_may_look_at_it
the cache of a convolution has one token too few
    components.mixer.convolution:Convolution.forward: packing.last(_, _1)
        => F.pad(packing.last(_, _1)[:, 1:], (0, 0, 1, 0))
    tests/mixer/test_mixer.py::test_layers_with_different_mixers_decode_as_they_train
a Fourier transform is as long as the longest row
    Fourier.forward: _.clamp(min=1)[:, None, None]
        => torch.full_like(_, arg_0.shape[1])[:, None, None]
    mixer fourier padding_has_no_influence
a Fourier transform turns the other way at padding
    Fourier.forward: _ + _1 => _ - _1
    mixer fourier padding_has_no_influence
no mixer is one that changes tokens
    NoMixer.forward: returns arg_0 + arg_0
    mixer none identity_says_the_truth
no mixer does not say that it is none
    NoMixer: keyword traits {'reach'}
    mixer none identity_says_the_truth
real tokens change their order when padding is moved away
    Packing.__init__: non_padding.cumsum(1) - 1 => self.length - non_padding.cumsum(1)
    mixer convolution padding_has_no_influence
a state does not follow its hypothesis
    LayerCache.reorder: _.items() => [item for item in _.items() if item[0] in 'kv']
    stack decoder-mixer=gru a_cache_can_be_reordered
# options of layers
a soft cap bounds scores by 1
    soft_cap: returns (arg_0 / arg_1).tanh()
    tests/models/test_attention_options.py::test_the_block_is_its_formula_with_every_attention
a window counts the tokens before the token itself
    apply_window: window - 1 if _ else window // 2 => window if _ else window // 2
    tests/models/test_windows.py::test_a_window_equals_the_mask_of_transformers
a windowed cache drops a token that is still seen
    apply_window: window - 1 if _ else None => window - 2 if _ else None
    tests/models/test_windows.py::test_token_by_token_equals_all_at_once
a windowed cache keeps all tokens
    apply_window: never keys is None and cache.positions is None
    tests/models/test_windows.py::test_a_cache_holds_no_more_than_its_window_needs
queries and keys are normalised over heads where each head was asked for
    HeadNorm.__init__: _ == 'all' => _ != 'all'
    tests/models/test_attention_options.py::test_the_block_is_its_formula_with_every_attention
the gate reads what it multiplies
    SelfOrCrossAttention.attend: y * self.gate(x).sigmoid() => y * self.gate(y).sigmoid()
    tests/models/test_attention_options.py::test_the_block_is_its_formula_with_every_attention
heads have one scale in common
    SelfOrCrossAttention.attend: _[:, None, None] => _.mean()
    tests/models/test_attention_options.py::test_the_block_is_its_formula_with_every_attention
without bias, the output projection has one
    SelfOrCrossAttention.__init__: Linear(_ * value_dim, dim, bias=options.bias)
        => Linear(_ * value_dim, dim)
    tests/models/test_attention_options.py::test_without_bias_no_linear_layer_of_attention_has_one
without projections, the tokens are projected
    SelfOrCrossAttention.__init__: never options.projections == 'none'
    tests/models/test_attention_options.py::test_the_block_is_its_formula_with_every_attention
a parallel feed-forward layer reads attention
    Parallel.forward: mixed: Tensor = _; fed: Tensor = _1(self.feedforward_norm(x, _2), *_3)
        => mixed: Tensor = _; fed: Tensor = _1(self.feedforward_norm(x + mixed, _2), *_3)
    tests/models/test_windows.py::test_a_parallel_layer_is_its_formula
a pattern does not repeat
    StackOptions.each_layer: layer % _ => min(layer, _ - 1)
    tests/models/test_windows.py::test_layers_of_a_pattern_are_the_layers_that_it_names
layers of a pattern have the position of the stack
    Stack.add_layer_positions: (names[key], _) => ('', _)
    tests/models/test_windows.py::test_layers_of_a_pattern_are_the_layers_that_it_names
"""
LINES = re.sub(r"\n {8,}", " ", re.sub(r"::\n +", "::", TABLE)).strip().splitlines()
SAID = [line for line in LINES if not line.startswith("#")]
BUGS = tuple(map(bug, SAID[::3], SAID[1::3], SAID[2::3]))
