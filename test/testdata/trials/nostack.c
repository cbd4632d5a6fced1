#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#define S(n) "mov $" #n ",%%eax\n syscall\n"
static void *ro;
__attribute__((noipa)) void touch(void){ asm volatile(""); }
static const char*argv[]={"true",0}; 
__attribute__((noipa)) long sys(int which,long sp){ long r; struct {long a[4];} act={0};
 act.a[0]=(long)touch; act.a[1]=0x04000000; act.a[2]=(long)touch;
 switch(which){
 case 0: asm volatile("mov %1,%%rsp\n mov $7,%%edi\n" S(231) :"=a"(r):"r"(sp):"memory"); break;
 case 1: asm volatile("mov %1,%%rsp\n mov $8,%%edi\n" S(60) :"=a"(r):"r"(sp):"memory"); break;
 case 2: asm volatile("mov %%rsp,%%rbx\n mov %1,%%rsp\n mov $0x100000,%%edi\n mov $4096,%%esi\n mov $1,%%edx\n" S(10) "mov %%rbx,%%rsp\n" :"=a"(r):"r"(sp):"memory","rbx","rdi","rsi","rdx","rcx","r11"); printf("mprotect %ld\n",r); break;
 case 3: asm volatile("mov %%rsp,%%rbx\n mov %1,%%rsp\n mov $12,%%edi\n mov %2,%%rsi\n xor %%edx,%%edx\n mov $8,%%r10d\n" S(13) "mov %%rbx,%%rsp\n" :"=a"(r):"r"(sp),"r"(&act):"memory","rbx","rdi","rsi","rdx","r10","rcx","r11"); printf("sigaction %ld\n",r); break;
 case 4: asm volatile("mov %1,%%rsp\n lea 1f(%%rip),%%rdi\n mov %2,%%rsi\n xor %%edx,%%edx\n" S(59) "hlt\n1: .asciz \"/bin/true\"\n" :"=a"(r):"r"(sp),"r"(argv):"memory"); break;
 case 5: asm volatile("mov %%rsp,%%rbx\n mov %1,%%rsp\n" S(57) "mov %%rbx,%%rsp\n" :"=a"(r):"r"(sp):"memory","rbx","rcx","r11","rdi","rsi","rdx"); if(!r) _exit(5); int st; waitpid(r,&st,0); printf("fork %d\n",st>>8); break;
 case 6: asm volatile("mov %%rsp,%%rbx\n mov %1,%%rsp\n mov $0x10000,%%edi\n mov $4096,%%esi\n" S(11) "mov %%rbx,%%rsp\n" :"=a"(r):"r"(sp):"memory","rbx","rdi","rsi","rdx","rcx","r11"); printf("munmap %ld\n",r); break;
 case 7: asm volatile("mov %%rsp,%%rbx\n mov %1,%%rsp\n mov $4,%%edi\n xor %%esi,%%esi\n" S(157) "mov %%rbx,%%rsp\n" :"=a"(r):"r"(sp):"memory","rbx","rdi","rsi","rdx","rcx","r11"); printf("prctl %ld\n",r); break;
 case 8: asm volatile("mov %%rsp,%%rbx\n mov %1,%%rsp\n mov %2,%%rdi\n mov $4096,%%esi\n mov $4,%%edx\n" S(28) "mov %%rbx,%%rsp\n" :"=a"(r):"r"(sp),"r"(ro):"memory","rbx","rdi","rsi","rdx","rcx","r11"); printf("madvise %ld\n",r); break;
 }
 return 0; }
int main(void){ setvbuf(stdout,0,_IONBF,0); ro=mmap(0,4096,1,MAP_PRIVATE|MAP_ANONYMOUS,-1,0);
 char*m=mmap(0,8192,3,MAP_PRIVATE|MAP_ANONYMOUS,-1,0); mprotect(m,4096,0);
 long sps[]={0,8,(long)ro+2048,0x4141414141414141,(long)m+4096,(long)m+4096+16,(long)m+6001,(long)m+8192,-1};
 for(int w=0;w<9;w++) for(int s=0;s<9;s++){ printf("%d %d: ",w,s); pid_t p=fork(); if(!p){ sys(w,sps[s]); touch(); _exit(9);} int st; waitpid(p,&st,0); printf("status %x\n",st); }
 return 0; }
