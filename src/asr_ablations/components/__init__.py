"""Components that an ablation can vary: conf/<group>/<name>.yaml configures components/<group>/<name>.py.

A contract is a Protocol that specifies the argument names, shapes, units and guarantees of the objects that a group's
yaml files build. If Lightning requires one of its own classes, the contract is a subclass of that class. Each contract
is defined in the lowest layer of the package that uses it. tests/components/test_contracts.py checks every option
against the contract of its group, and each group's tests check the guarantees in the contract's docstring.
"""

CONTRACTS = {
    "alphabet": "asr_ablations.data.batch.AlphabetFactory",
    "augment": "asr_ablations.data.batch.Augmentation",
    "auxiliary": "asr_ablations.training.contracts.AuxiliaryFactory",
    "averaging": "asr_ablations.training.contracts.WeightAveraging",
    "cache": "asr_ablations.data.recording_cache.Cache",
    "callbacks": "pytorch_lightning.Callback",
    "condition": "asr_ablations.training.contracts.Condition",
    "data": "asr_ablations.data.corpus.Corpus",
    "debug": "asr_ablations.training.contracts.Debugging",
    "decoder": "asr_ablations.training.contracts.DecoderFactory",
    "features": "asr_ablations.training.contracts.Features",
    "gradient": "asr_ablations.training.contracts.GradientTreatment",
    "init": "asr_ablations.training.contracts.Initialisation",
    "lm": "asr_ablations.language_models.text.LanguageModelSource",
    "logger": "asr_ablations.training.contracts.LoggerFactory",
    "loss": "asr_ablations.training.contracts.Loss",
    "model": "asr_ablations.training.contracts.AcousticModel",
    "norm": "asr_ablations.training.contracts.NormFactory",
    "optimizer": "asr_ablations.training.contracts.OptimizerFactory",
    "order": "asr_ablations.data.batch.Order",
    "penalty": "asr_ablations.training.contracts.Penalty",
    "pretrain": "asr_ablations.training.contracts.Pretraining",
    "pruning": "asr_ablations.training.contracts.PruningFactory",
    "rnn": "asr_ablations.training.contracts.RecurrentFactory",
    "schedule": "asr_ablations.training.contracts.ScheduleFactory",
    "stopping": "asr_ablations.training.contracts.Stopping",
    "trainer": "asr_ablations.training.contracts.ParallelTraining",
    "until": "asr_ablations.training.contracts.UntilFactory",
}
"""Dotted name of each group's contract. Contracts are not imported, because reading a config must not import torch."""
