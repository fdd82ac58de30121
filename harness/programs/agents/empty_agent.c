/* An agent that does nothing and answers as the probe does (probe/start/entries.c): what a JVM keeps of it, it keeps of every
 * agent. */
__attribute__((visibility("default"))) int Agent_OnAttach(void *vm, char *options, void *reserved) {
    static int known;
    (void)vm;
    (void)options;
    (void)reserved;
    return known++ ? 110 : 0;
}
