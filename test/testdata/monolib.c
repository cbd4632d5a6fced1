// What a library has that Mono compiled ahead of time, and by which its run time finds it;
// and the data behind a jump of its table, which looks like a use of the GS segment.
int mono_aot_file_info[2] = {1, 2};

__asm__(".text\n\t.type plt_it, @function\nplt_it:\tjmp *0(%rip)\n\t.byte 0x65, 0xa5, 0, 0\n\t.size plt_it, 10");
