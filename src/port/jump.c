/*
 * jump: how Lua leaves its functions in the middle, by an error or a yield. In bin/mare this is what it calls for _setjmp and _longjmp
 * (cmake/core.cmake).
 *
 * Each wait of a process jumps once. The C library's pair, 90 of a message's instructions and a tenth of its time, writes addresses in code that is
 * hard to guess, looks for clean-up handlers that C functions have pushed for the end of their thread (to raise a Lua error in the middle of such is undefined
 * by POSIX), and with some flags whether the jump leads down the stack, which Lua's never do. This pair does the rest: it keeps what a function has to keep
 * for its caller on x86-64, in a jmp_buf, which has room for more.
 *
 * A shadow stack, which some processors keep of where functions return to, is not cut back here: so this file is compiled as one that knows none, and
 * then the linker marks bin/mare so.
 *
 * The sanitizers follow the C library's, so their builds use that; so do other processors, and plain lua5.4, whose library is not ours.
 */
#include "port/port.h"

#if defined(__x86_64__) && defined(__LP64__)

#define FUNCTION(name) ".globl " name "\n.hidden " name "\n.type " name ", @function\n" name ":\n"

__asm__(
  ".text\n"
  ".p2align 4\n"
  FUNCTION("__wrap__setjmp")
  "  .cfi_startproc\n"
  "  movq %rbx, (%rdi)\n"
  "  movq %rbp, 8(%rdi)\n"
  "  movq %r12, 16(%rdi)\n"
  "  movq %r13, 24(%rdi)\n"
  "  movq %r14, 32(%rdi)\n"
  "  movq %r15, 40(%rdi)\n"
  "  leaq 8(%rsp), %rdx\n"              /* as it will be when this has returned */
  "  movq %rdx, 48(%rdi)\n"
  "  movq (%rsp), %rdx\n"
  "  movq %rdx, 56(%rdi)\n"
  "  xorl %eax, %eax\n"
  "  ret\n"
  "  .cfi_endproc\n"
  ".size __wrap__setjmp, .-__wrap__setjmp\n"
  ".p2align 4\n"
  FUNCTION("__wrap__longjmp")
  FUNCTION("__wrap___longjmp_chk")
  "  .cfi_startproc\n"
  "  movl %esi, %eax\n"
  "  testl %eax, %eax\n"
  "  jne 1f\n"
  "  incl %eax\n"                       /* 0 would look like the first return */
  "1: movq (%rdi), %rbx\n"
  "  movq 8(%rdi), %rbp\n"
  "  movq 16(%rdi), %r12\n"
  "  movq 24(%rdi), %r13\n"
  "  movq 32(%rdi), %r14\n"
  "  movq 40(%rdi), %r15\n"
  "  movq 48(%rdi), %rsp\n"
  "  jmp *56(%rdi)\n"
  "  .cfi_endproc\n"
  ".size __wrap__longjmp, .-__wrap__longjmp\n"
  ".size __wrap___longjmp_chk, .-__wrap___longjmp_chk\n"
);

#endif
