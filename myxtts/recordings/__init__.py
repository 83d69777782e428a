"""From recordings as people have them to a data set: cleaning clips, and cutting long readings into clips.

    prepare   clips with their texts → the same at one level, with short silent ends, and what is wrong with each
    split     a long reading and its text → clips with their texts, each with a confidence

Nothing is changed in place. Both continue after an interruption, and write `metadata.csv` last.
"""
