"""Learned algorithms, the paper's kind of trial: networks that are trained on the losses of inputs and seeds r."""
