/* An agent that does nothing: what a JVM keeps of it, it keeps of every agent. */
__attribute__((visibility("default"))) int Agent_OnAttach(void *vm, char *options, void *reserved) {
    (void)vm;
    (void)options;
    (void)reserved;
    return 0;
}
