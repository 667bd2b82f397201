"""The preprocessing of bench_transform as TFX has it: what the stock routes run, and `shardmill --module_file`."""

from typing import Any

import tensorflow_transform as tft


def preprocessing_fn(inputs: dict[str, Any]) -> dict[str, Any]:
    """Two z-scores, one bucketize, two vocabularies; all else as it is."""
    outputs = dict(inputs)
    outputs["float_0"] = tft.scale_to_z_score(inputs["float_0"])
    outputs["float_1"] = tft.scale_to_z_score(inputs["float_1"])
    outputs["float_2"] = tft.bucketize(inputs["float_2"], 10)
    outputs["word_2"] = tft.compute_and_apply_vocabulary(inputs["word_2"], vocab_filename="word_2")
    outputs["word_3"] = tft.compute_and_apply_vocabulary(
        inputs["word_3"], top_k=5000, num_oov_buckets=1, vocab_filename="word_3"
    )
    return outputs
