/* dynprof.h: control dynprof from inside the program that it counts.
 *
 * A program that includes this needs no library to link with and runs the same
 * with and without LD_PRELOAD=libdynprof.so: every function here is then a
 * no-op that returns DYNPROF_OFF. (They are weak references; where one is
 * linked, position-independent code is needed: gcc's and clang's default, -fPIE.)
 *
 * Functions return 0 or more, or a negative errno. They may be called by any
 * thread at any time; those marked [signals] also by signal handlers. None takes
 * a lock of libc, allocates from the heap or leaves a descriptor open.
 * docs/control.md tells more.
 */
#ifndef DYNPROF_H
#define DYNPROF_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DYNPROF_API 7  /* grows with every addition to this file */
#define DYNPROF_OFF (-38) /* -ENOSYS: nothing is counted in this process */

#ifdef DYNPROF_LIBRARY
#define DYNPROF_FUNCTION __attribute__((visibility("default")))
#else
#define DYNPROF_FUNCTION __attribute__((weak, visibility("default")))
#endif

/* The DYNPROF_API of the library: what was added later is not there. [signals] */
DYNPROF_FUNCTION int dynprof_version(void);

/* 1 if calls are counted, 2 if counting is paused. [signals] */
DYNPROF_FUNCTION int dynprof_active(void);

/* Stops and restarts counting, in all processes that share the count table (a
 * fork tree). Calls that are on their way while this runs may be counted or not;
 * calls that begin after it has returned are not (pause), or are (resume).
 * Returns how many functions could not be reached: those of libraries that
 * other processes loaded after a fork, which go on being counted; 0 is all.
 * -EOPNOTSUPP: blocks are counted (hotspots run --blocks), without --control; -EPERM:
 * the kernel lets nobody write to the arenas; -ENOMEM: no address space; -EDEADLK: in a
 * signal handler that has interrupted one of the two. [signals] */
DYNPROF_FUNCTION int dynprof_pause(void);
DYNPROF_FUNCTION int dynprof_resume(void);

/* Lets all counts begin at 0 again, for reports and for what follows; thresholds
 * and Prometheus's metrics are not touched. -EOPNOTSUPP: blocks are counted; -ENOSPC:
 * no room on disk; -EBUSY: too many at a time. [signals] */
DYNPROF_FUNCTION int dynprof_reset(void);

/* Writes a copy of the count table as it is now, for hotspots report. It is there
 * when it is whole; a file of that name is replaced. */
DYNPROF_FUNCTION int dynprof_snapshot(const char *path);

/* Regions: memory whose accesses are recorded, with hotspots run --regions (API 5;
 * docs/regions.md; memtr.h has the same with other names). Add returns the number of a
 * region: bytes at address, from now on, for all threads, and children that are forked.
 * name is shown, its first 95 bytes, and may be null. flags: DYNPROF_REGION_LOAD has
 * accesses recorded that read, _STORE those that write, both or 0 all (0: what hotspots run
 * --kinds says). Where regions overlap an access is of the one that was added last, of those that have
 * such accesses recorded. Find returns the number of the one that was added last of those
 * that begin there. Flush returns when all that was recorded so far is with who writes it.
 * dynprof_trace.h has more for them. -EFAULT: name is nowhere.
 * -EINVAL: there are no such bytes, or flags; -E2BIG: more than 64 GB; -ENOSPC: as many
 * regions as can be, 256 at a time and 16,383 in all; -ENOENT: there is none (remove,
 * find); -ETIMEDOUT: nobody writes (flush). [signals] */
#define DYNPROF_REGION_LOAD 1u
#define DYNPROF_REGION_STORE 2u
DYNPROF_FUNCTION int64_t dynprof_region_add(const void *address, size_t bytes, const char *name, unsigned flags);
DYNPROF_FUNCTION int dynprof_region_remove(int64_t region);
DYNPROF_FUNCTION int64_t dynprof_region_find(const void *address);
DYNPROF_FUNCTION int dynprof_region_flush(void);

/* The number of a function: by its name as in the ELF file (C++ mangled) or an
 * alias, in the object with that path or base name (null: any); or by an address
 * in it. Numbers stay. Finding one looks through all names: keep it.
 * -ENOENT: there is none. [signals] */
DYNPROF_FUNCTION int64_t dynprof_find(const char *object, const char *name);
DYNPROF_FUNCTION int64_t dynprof_find_address(const void *address);

/* Calls of a function, by all threads and processes, since the start or the last
 * reset. Another thread's calls of this moment may be in it or not.
 * -ENODATA: it is not counted; hotspots coverage says why. [signals] */
DYNPROF_FUNCTION int64_t dynprof_calls(const char *object, const char *name);
DYNPROF_FUNCTION int64_t dynprof_calls_of(int64_t function);

/* How many functions there are: their numbers are 0 to this - 1. [signals] */
DYNPROF_FUNCTION int64_t dynprof_functions(void);

/* A later version has more members; size tells which. */
struct dynprof_function {
	uint32_t size;       /* set by the caller: sizeof(struct dynprof_function) */
	uint32_t counted;    /* 1 if its calls are counted */
	const char *object;  /* path; like name, valid as long as the process lives */
	const char *name;    /* as in the ELF file; "" if it has none */
	uint64_t address;    /* run address of its entry */
	uint64_t bytes;      /* its length */
	int64_t calls;       /* as dynprof_calls_of() */
};

/* Fills in *info. -EINVAL: size is not that of a version; -ENOENT. [signals] */
DYNPROF_FUNCTION int dynprof_function_info(int64_t function, struct dynprof_function *info);

/* ---- blocks: of a run with them (hotspots run --blocks; API 4) ---- */

/* Instructions of a function that run one after the other. What is told of calls that
 * are on their way may be wrong by one for each thread. */
struct dynprof_block {
	uint64_t address;      /* run address of its first instruction, as it was */
	uint32_t bytes, instructions;
	uint64_t runs;         /* how often it ran */
	int32_t loop;          /* number of the innermost loop that it is in, of dynprof_loops(); -1: none */
	uint32_t is_entry;     /* 1: the function begins with it */
	int64_t callee;        /* the function that its last instruction calls, or jumps to, each time;
	                          -1: none, or it cannot be told, as of another object */
};

/* A loop of a function: blocks that run in turn. */
struct dynprof_loop {
	uint32_t header;       /* number of the block that it is entered at, of dynprof_blocks() */
	int32_t parent;        /* number of the loop around it; -1: none */
	uint64_t iterations;   /* how often the header ran */
	int64_t entries;       /* how often it was entered; -1: it cannot be told */
	uint64_t instructions; /* that it executed, with those of loops in it, without what it calls */
};

/* Fill in the first room entries of a list, each of size bytes: sizeof *list. Returns how
 * many there are. Blocks are in the order of their addresses, a loop comes before those in
 * it. -ENODATA: the function's blocks are not counted; -EINVAL: size is not that of a
 * version; -ENOENT; -ENOMEM. [signals] */
DYNPROF_FUNCTION int64_t dynprof_blocks(int64_t function, struct dynprof_block *list, uint32_t size, uint32_t room);
DYNPROF_FUNCTION int64_t dynprof_loops(int64_t function, struct dynprof_loop *list, uint32_t size, uint32_t room);

/* ---- translators; docs/translator.md ---- */

/* A function that has reached its threshold. A later version has more members;
 * size tells which. All of it is valid until the callback returns; name, object
 * and build_id as long as the process lives. */
struct dynprof_event {
	uint32_t size;
	uint32_t synchronous;  /* the callback runs on the thread that called the function */
	int64_t function;      /* its number */
	const char *name;      /* as in the ELF file; "" if it has none */
	const char *object;    /* path */
	const char *build_id;  /* hex digits; "" if it has none */
	const void *entry;     /* run address */
	uint64_t bytes;        /* the function's length */
	const uint8_t *code;   /* its bytes as they were before patching; NULL: no memory */
	uint64_t calls;        /* by all threads and processes, this one included */
	const void *original;  /* its own code, to be called uncounted */
	uint32_t pid, tid;     /* whose call it was */
};

typedef void dynprof_translator(const struct dynprof_event *event, void *user);

enum {
	DYNPROF_ASYNCHRONOUS = 0, /* a thread of its own calls it; the program goes on meanwhile */
	DYNPROF_SYNCHRONOUS = 1   /* the thread that called the function does, before its first instruction */
};

/* Has callback called when a function becomes hot: at its threshold of this run
 * or, where the run gives it none, after that many calls; 0: only those of the
 * run and of dynprof_rearm(). There is one translator at a time: -EBUSY. NULL
 * takes it away, and waits until it is not running; -EBUSY if it is after 2
 * seconds, -EDEADLK in the callback itself. -EOPNOTSUPP: not a run with a
 * translator; -EINVAL: the threshold is above 2147483647, mode is unknown, or
 * there is no code; -ENOMEM; -EPERM: a threshold in a process that may not
 * write to its arenas; -EAGAIN: no thread. Not in signal handlers. */
DYNPROF_FUNCTION int dynprof_register_translator(dynprof_translator *callback, uint64_t threshold, int mode, void *user);

/* The largest number of calls that dynprof_rearm() takes. The largest threshold
 * is 2147483647. */
#define DYNPROF_MOST_CALLS (UINT64_C(1) << 62)

enum {
	DYNPROF_COUNTED = 1, /* calls are counted */
	DYNPROF_RAW = 0x100  /* the code changes no register that the function leaves alone (API 3) */
};

/* From now on calls of the function run code, in this process and in children
 * that it makes from now on. Threads that are in the function stay in its own code.
 * The code is entered with all registers as the caller left them, and may lie
 * anywhere. It must stay until nobody can be in it: there is no way to know.
 *
 * It may be compiled by any compiler, for the ABI. Compilers of the program may know
 * that the function leaves registers alone that are its own by the ABI, and its
 * callers rely on that (gcc's -fipa-ra, which -O2 has); then the code is called by way of
 * a keeper, which has a frame of its own and gives back to the callers what they had
 * in these registers. Without them, or with DYNPROF_RAW, it is entered by a jump, with
 * flags and stack, too, as the caller left them.
 * -E2BIG: a keeper is needed, and the function takes an unknown number of arguments
 * on the stack, which it could not hand on; -EPROTOTYPE: the function has a calling
 * convention of its own (assembly, Go), so compiled code can neither be it nor call
 * it. With DYNPROF_RAW neither is looked at.
 *
 * -EINVAL: there is no code there, or it is the function's own entry (see
 * dynprof_original); -EOPNOTSUPP: not a run with a translator; -ENXIO: the
 * function is another process's; -EPERM: the kernel lets nobody write to the
 * arenas; -ENODATA: it is not counted; -ENOENT: there is none; -EBUSY;
 * -EDEADLK: in a signal handler that has interrupted one of these. [signals] */
DYNPROF_FUNCTION int dynprof_redirect(int64_t function, const void *code, int flags);

/* Calls run the function's own code again, and are counted. [signals] */
DYNPROF_FUNCTION int dynprof_restore(int64_t function);

/* Lets the function fire once more, at exactly the calls-th call from now on by
 * threads of this process, and instead of what it is armed for now. While it is
 * armed a call costs 1 or 2 ns more, several where threads contend. -ENODATA: it is redirected and not counted;
 * -EINVAL: calls is 0 or too many. [signals] */
DYNPROF_FUNCTION int dynprof_rearm(int64_t function, uint64_t calls);

/* Where the function's own code can be called, uncounted, whatever happens to its
 * calls; NULL if it is not counted. [signals] */
DYNPROF_FUNCTION const void *dynprof_original(int64_t function);

/* What a plug-in (hotspots run --translator FILE.so) gets. size tells which
 * members there are. */
struct dynprof_api {
	uint32_t size;
	uint32_t version; /* DYNPROF_API */
	int (*register_translator)(dynprof_translator *, uint64_t threshold, int mode, void *user);
	int (*redirect)(int64_t function, const void *code, int flags);
	int (*restore)(int64_t function);
	int (*rearm)(int64_t function, uint64_t calls);
	const void *(*original)(int64_t function);
	int64_t (*find)(const char *object, const char *name);
	int64_t (*find_address)(const void *address);
	int64_t (*calls_of)(int64_t function);
	int64_t (*functions)(void);
	int (*function_info)(int64_t function, struct dynprof_function *info);
	int (*pause)(void);
	int (*resume)(void);
	int (*reset)(void);
	int (*snapshot)(const char *path);
	int64_t (*blocks)(int64_t function, struct dynprof_block *list, uint32_t size, uint32_t room); /* API 4, as the next */
	int64_t (*loops)(int64_t function, struct dynprof_loop *list, uint32_t size, uint32_t room);
};

/* A plug-in has a function of this type named dynprof_plugin_init. It is called
 * once, before the program's main. What it returns other than 0 is said. */
typedef int dynprof_plugin_init_function(const struct dynprof_api *api);

#ifdef __cplusplus
}
#endif

#ifndef DYNPROF_LIBRARY
#if !defined __PIC__ && !defined __PIE__
#warning "dynprof.h: compile with -fPIE, or all of dynprof.h may be no-ops"
#endif
#define DYNPROF_CALL0(f) (f ? f() : DYNPROF_OFF)
#define DYNPROF_CALL(f, ...) (f ? f(__VA_ARGS__) : DYNPROF_OFF)
#define dynprof_version() (dynprof_version ? dynprof_version() : 0)
#define dynprof_active() (dynprof_active ? dynprof_active() : 0)
#define dynprof_pause() DYNPROF_CALL0(dynprof_pause)
#define dynprof_resume() DYNPROF_CALL0(dynprof_resume)
#define dynprof_reset() DYNPROF_CALL0(dynprof_reset)
#define dynprof_snapshot(path) DYNPROF_CALL(dynprof_snapshot, path)
#define dynprof_region_add(address, bytes, name, flags) DYNPROF_CALL(dynprof_region_add, address, bytes, name, flags)
#define dynprof_region_remove(region) DYNPROF_CALL(dynprof_region_remove, region)
#define dynprof_region_find(address) DYNPROF_CALL(dynprof_region_find, address)
#define dynprof_region_flush() DYNPROF_CALL0(dynprof_region_flush)
#define dynprof_find(object, name) DYNPROF_CALL(dynprof_find, object, name)
#define dynprof_find_address(address) DYNPROF_CALL(dynprof_find_address, address)
#define dynprof_calls(object, name) DYNPROF_CALL(dynprof_calls, object, name)
#define dynprof_calls_of(function) DYNPROF_CALL(dynprof_calls_of, function)
#define dynprof_functions() (dynprof_functions ? dynprof_functions() : 0)
#define dynprof_function_info(function, info) DYNPROF_CALL(dynprof_function_info, function, info)
#define dynprof_blocks(function, list, size, room) DYNPROF_CALL(dynprof_blocks, function, list, size, room)
#define dynprof_loops(function, list, size, room) DYNPROF_CALL(dynprof_loops, function, list, size, room)
#define dynprof_register_translator(callback, threshold, mode, user) DYNPROF_CALL(dynprof_register_translator, callback, threshold, mode, user)
#define dynprof_redirect(function, code, flags) DYNPROF_CALL(dynprof_redirect, function, code, flags)
#define dynprof_restore(function) DYNPROF_CALL(dynprof_restore, function)
#define dynprof_rearm(function, calls) DYNPROF_CALL(dynprof_rearm, function, calls)
#define dynprof_original(function) (dynprof_original ? dynprof_original(function) : (const void *)0)
#endif

#endif
