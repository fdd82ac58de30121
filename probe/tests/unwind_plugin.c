/* A module that calls back: frames of something that was dlopened. */
void call_back(void (*callee)(void)) {
    callee();
    __asm__ volatile("");
}
