"""What papers/002 (Doetsch et al. 2016) reports of its framewise experiment on CHiME, with GeForce GTX 980."""

UTTERANCES = 8738
"""§6."""

TOOLKITS = {
    "RETURNN": (140.0, 0.6),
    "Theano (in RETURNN)": (370.0, 0.8),
    "TensorFlow": (580.0, 2.1),
    "Torch": (210.0, 3.1),
}
"""Table 1: seconds an epoch and GB; of TensorFlow and Torch an upper estimate, says the paper."""

WORKERS = {1: 140.0, 2: 80.0, 4: 41.0}
"""§6: seconds an epoch by the number of GPUs."""
