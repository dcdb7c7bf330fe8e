"""The ids of special tokens, the same for every tokenizer, model, search and data module.

``PAD`` fills short rows of a batch, ``UNK`` stands for what the vocabulary lacks, ``BOS`` starts
the decoder, ``EOS`` ends a sentence. Tokenizers give all other tokens the ids from 4 on.
"""

from __future__ import annotations

PAD, UNK, BOS, EOS = 0, 1, 2, 3
