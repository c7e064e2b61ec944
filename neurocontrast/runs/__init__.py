"""The folder of a pretraining run: how it is written, resumed and launched, and which scans it reads."""
