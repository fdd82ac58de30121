/* A module for dlopen that calls back, so that its frames are on the stack. */
void call_back(void (*callee)(void)) {
    callee();
    __asm__ volatile("");
}
