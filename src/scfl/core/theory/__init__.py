"""What can be said of SCFL before it runs: the paper's statements as printed, and what is true.

``printed`` is the paper word for word; ``lemma`` corrects it; ``variance`` is exact; ``limit`` says
where training ends when the code is drawn once; ``estimate`` is what a server can know of all this
from the coded data that it holds. ``docs/errata.md`` shows where the first differs from the others.
"""
