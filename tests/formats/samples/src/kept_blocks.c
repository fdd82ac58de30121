#include <stdlib.h>
#include <string.h>
#include <mcheck.h>
static char *keep[64];
__attribute__((noinline)) char *make_block(size_t n){ char*p=malloc(n); memset(p,1,n); return p; }
__attribute__((noinline)) void leak_small(int i){ keep[i]=make_block(100+i); }
__attribute__((noinline)) void grow(void){ char*p=malloc(32); for(int i=1;i<6;i++) p=realloc(p,32u<<i); keep[60]=p; }
int main(void){ mtrace(); for(int i=0;i<20;i++) leak_small(i); for(int i=0;i<10;i++) free(make_block(5000)); grow(); free(keep[3]); void*q=calloc(3,7); keep[61]=q; void*z=0; posix_memalign(&z,64,777); memset(keep,0,sizeof keep); return 0; }
