"""Reports that a tool wrote for people: massif, Memcheck, LeakSanitizer, Native Memory Tracking."""
