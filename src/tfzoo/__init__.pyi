from . import contracts as contracts
from . import errors as errors
from . import masks as masks
from . import search as search
from . import testing as testing
from .base.memory import keep_freed_memory as keep_freed_memory
from .base.registry import create as create
from .base.registry import describe as describe
from .base.registry import list_components as list_components
from .base.registry import register as register
from .base.special_ids import SpecialIds as SpecialIds
from .data.batches import ClassificationBatch as ClassificationBatch
from .data.batches import ParallelBatch as ParallelBatch
from .data.classification import ClassificationData as ClassificationData
from .data.documents import DocumentData as DocumentData
from .data.documents import MaskedData as MaskedData
from .data.translation import TranslationData as TranslationData
from .learning.optim import Optim as Optim
from .masks import Mask as Mask
from .models.classifier import TransformerClassifier as TransformerClassifier
from .models.encoder_decoder import Decoder as Decoder
from .models.encoder_decoder import DecoderLayer as DecoderLayer
from .models.encoder_decoder import Encoder as Encoder
from .models.encoder_decoder import EncoderLayer as EncoderLayer
from .models.generation import generate as generate
from .models.language_model import LanguageModel as LanguageModel
from .models.masked_language_model import MaskedLanguageModel as MaskedLanguageModel
from .models.torch_attention import MultiheadAttention as MultiheadAttention
from .models.transformer import Transformer as Transformer
from .plots.attention import attention_maps as attention_maps
from .search import Search as Search
from .swapping.attentions import swappable as swappable
from .swapping.saved import from_pretrained as from_pretrained
from .swapping.swap import swap as swap
from .swapping.swap_parts import SwapParts as SwapParts
from .tasks.classification import ClassificationTask as ClassificationTask
from .tasks.classification import Loss as Loss
from .tasks.language_modeling import LanguageModelingTask as LanguageModelingTask
from .tasks.masked_language_modeling import MaskedLanguageModelingTask as MaskedLanguageModelingTask
from .tasks.multilabel_classification import (
    MultilabelClassificationTask as MultilabelClassificationTask,
)
from .tasks.multilabel_classification import MultilabelData as MultilabelData
from .tasks.regression import RegressionData as RegressionData
from .tasks.regression import RegressionTask as RegressionTask
from .tasks.token_classification import TokenClassificationTask as TokenClassificationTask
from .tasks.token_classification import TokenData as TokenData
from .tasks.translation import TranslationTask as TranslationTask
from .training.load import load as load

__version__: str
