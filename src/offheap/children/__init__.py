"""Programs that offheap starts by their paths, so that they may crash and use much memory.

Python puts the folder of such a program first where it looks for modules.  So the folder has no module of
another purpose: it would hide a library's of the same name.  `-P`, which leaves the folder out, exists from
Python 3.11 on; `-I` also hides libraries below PYTHONPATH, and `-m` finds modules of the caller's folder.
"""
