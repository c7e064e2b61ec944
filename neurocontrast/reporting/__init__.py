"""Pages of evaluations, of comparisons and of quality control: blocks, figures, words, and a section a finding."""
