/* Hides _dl_find_object from a program that links this, as with a glibc before 2.35. */
__asm__(".globl _dl_find_object\n.hidden _dl_find_object\n.set _dl_find_object, 0");
