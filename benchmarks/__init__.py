"""Programs that measure offheap; each writes its table into docs/ with --write."""
