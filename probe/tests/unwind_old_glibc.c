/* Linked in, it makes glibc look older than 2.35: _dl_find_object is not there. */
__asm__(".globl _dl_find_object\n.hidden _dl_find_object\n.set _dl_find_object, 0");
