"""SCFL on Flower: an app that ``flwr run`` starts. Nothing else in scfl imports ``flwr``."""
