#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char *kept[400];
__attribute__((noinline)) void keep_one(int i){ kept[i]=malloc(1000); memset(kept[i],1,1000); }
__attribute__((noinline)) void use_one(void){ char*volatile p=malloc(64); free(p); }
int main(void){ for(int i=0;i<100;i++){ keep_one(i); use_one(); usleep(20000);} return kept[7][3]-1; }
