#include <stdlib.h>
#include <string.h>
struct node { struct node *next; char data[100]; };
static void *keep;
__attribute__((noinline)) char *make_block(size_t n){ char*p=malloc(n); memset(p,1,n); return p; }
__attribute__((noinline)) void lose(int i){ char *volatile p=make_block(100+i); p=0; (void)p; }
__attribute__((noinline)) struct node *chain(int n){ struct node*h=0; for(int i=0;i<n;i++){ struct node*x=malloc(sizeof*x); x->next=h; h=x;} return h; }
__attribute__((noinline)) void lose_chain(void){ struct node*volatile h=chain(5); h=0; (void)h; }
int main(void){ for(int i=0;i<20;i++) lose(i); for(int i=0;i<10;i++) free(make_block(5000)); lose_chain(); keep=malloc(4000); char b[4096]; memset(b,0,sizeof b); return b[7]; }
