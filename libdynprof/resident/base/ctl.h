/* The memory that the shim shares with its twin while the twin plans: what the
 * shim knows goes in, what it has to do comes out, but for the changes of text, which
 * are in the reserve (texts/undos.h). Unmapped before main. */
#ifndef DYNPROF_CTL_H
#define DYNPROF_CTL_H

#include <stdint.h>

/* Plans of earlier starts. */
enum dp_cache {
	DP_CACHE_OFF,
	DP_CACHE_USE,  /* those that there are */
	DP_CACHE_KEEP, /* and when the twin has planned it writes down what later starts can use */
};

/* The shadow is mapped in which it is noted what memory is touched, and how that is done. */
enum dp_heat {
	DP_HEAT_NONE,	/* it is not */
	DP_HEAT_SHIFTS, /* by shifts, which change flags */
	DP_HEAT_MASKS,	/* by pext, with which the CPU is fast */
	DP_HEAT_REGIONS, /* instead it says where regions are, whose accesses are recorded; by shifts, */
	DP_HEAT_REGIONS_MASKS, /* and by pext */
	DP_HEAT_THREADS, /* of each thread for itself, by shifts */
	DP_HEAT_WHO,	/* and which instruction it was, by shifts, */
	DP_HEAT_WHO_MASKS, /* and by pext */
};

enum {
	DP_PATH_MAX = 4096,
	DP_LINE_MAX = 512,
};

/* One loaded ELF object, as dl_iterate_phdr(3) tells. */
struct dp_object {
	uint64_t bias;      /* run address minus ELF virtual address */
	uint64_t low, high; /* run addresses of its segments, high excluded */
	uint64_t name;      /* char *, "" for the executable */
	uint64_t self;      /* it is this library */
	uint64_t missed;    /* from the twin: DP_MISSED_*, if it is not counted */
	uint64_t dynamic;   /* run address of the dynamic section of one that comes later */
};

/* Pages of the reserve that shall run at another address. */
struct dp_arena {
	uint64_t at;     /* page-aligned run address, free when the twin looked */
	uint64_t offset; /* in the reserve */
	uint64_t size;   /* whole pages, */
	uint64_t pointers; /* and behind them pages whose bytes are each process's own */
	uint64_t cold;   /* where its cold blocks start */
	uint64_t keeps;  /* and its keep blocks, behind them */
	/* What its code stands for (stubgen/emit/origins.go), on pages that are mapped as the
	 * last arena: run addresses. */
	uint64_t origins, lengths;
	uint64_t by_text; /* uint32_t *: numbers of the origins, in the order of their text */
	uint64_t origins_count;
	uint64_t islands; /* struct dp_island *, in order of at */
	uint64_t islands_count;
	uint64_t traps;  /* run address of its struct dp_trap, in order of at */
	uint64_t traps_count;
	/* Where it finds the counters of row 0 if all threads share them: pages of
	 * the row, from an offset on. */
	uint64_t view, view_offset, view_size;
	uint64_t held; /* 1: its place is taken already */
};

/* Where an int3 stands, and where its thread goes on. */
struct dp_trap {
	uint64_t at, to;
};

/* Pages of a file that are to take the place of others, at to. */
struct dp_copy {
	uint64_t to, size;
	uint64_t from; /* 0: there are none, or they have */
};

/* A run of pages that holds entries to patch: what changes there is among the undos. */
struct dp_text {
	uint64_t start, size; /* whole pages */
	uint64_t arena;       /* number of the one that its patches lead to */
	struct dp_copy copy;  /* the text with all changes made, */
	struct dp_copy beside[2]; /* and what can only be read in front and behind, of the same file: tools take it for one */
	uint32_t exchanged;   /* 1: the text is that */
};

struct dp_ctl {
	/* From the shim. */
	uint64_t reserve;       /* run address of the reserve */
	uint64_t reserve_size;
	uint64_t cold_entry;    /* code that a threshold's cold blocks call */
	uint64_t keep_entry;    /* code that keep blocks lead to */
	uint64_t site_entry;   /* code that kernel sites jump to */
	uint64_t record_entry;  /* code that records an access */
	uint64_t allocator_entry; /* code that functions lead to which hand out blocks, or take them back; 0: none does */
	uint64_t transfer_entry; /* code that is behind system calls which move bytes of sockets; 0: nothing adds them up */
	uint64_t signal_entry;  /* code that signal sites jump to */
	uint64_t changed_entry; /* code that runs when the dynamic linker has new objects */
	uint64_t r_brk;         /* the dynamic linker's function that we stand in for */
	uint64_t keep;          /* 1: the reserve stays, and part of it may be used */
	uint64_t cache;         /* enum dp_cache */
	uint64_t listen;        /* 1: the twin may become the endpoint for metrics */
	uint64_t blocks;        /* 1: blocks are counted, or calls by site: planning takes its time */
	uint64_t heat;          /* enum dp_heat */
	uint64_t granule;       /* of which each that is touched is noted: bits of an address within it */
	uint64_t bases;         /* 1: rdfsbase can be used */
	uint64_t audited;       /* 1: who traces the program is no debugger, but audits its regions */
	uint64_t late;          /* 1: these objects come later */
	uint64_t outside;       /* 1: and the planner has of the target what is here and in them */
	uint64_t view;          /* where the planner has the table then, up to its rows, */
	uint64_t view_size;     /* and its bytes */
	uint64_t short_space;   /* 1: address space is limited */
	uint64_t heap_end;      /* where the heap ends, if it can go on elsewhere; else 0 */
	uint64_t held, held_size; /* address space that is taken for the arenas */
	uint64_t translator;    /* 1: calls can be sent to other code */
	uint64_t argv;          /* char **, of the agent's own copy: it gives itself a name */
	uint64_t handles_traps; /* 1, if late: SIGTRAP is handled since the start */
	uint64_t shared;        /* 1: all threads share the counters, whatever the objects need */
	char *strings;          /* room for what the objects' names and variables are, if late */
	uint64_t *vars;         /* char *: the DYNPROF_* variables, XDG_RUNTIME_DIR, XDG_CACHE_HOME, HOME */
	struct dp_object *objects;
	uint32_t vars_count, vars_cap;
	uint32_t objects_count, objects_cap;
	uint32_t pid;
	uint32_t shows;         /* 1: who waits at a terminal is told how far it is */

	/* From the twin. Done is a futex word, stored last. */
	uint32_t planner;       /* its process number, where it sees itself */
	uint32_t beats;         /* grow while it plans */
	uint32_t percent;       /* how far it is */
	uint32_t begun;         /* 1: the table may be changed */
	uint32_t done;
	uint32_t saved;         /* a futex word, too: what later starts can use is written */
	uint32_t status;        /* 1: apply what follows; 0: message says why not */
	uint32_t arenas_count, arenas_cap;
	uint32_t texts_count, texts_cap;
	uint32_t announce;      /* 1: perf shall see the arenas */
	uint32_t traps;         /* 1: SIGTRAP has to be handled */
	uint32_t stop;          /* 1: a new object may take the GS segment: end the counting first,
				 * whatever the status is */
	uint32_t serves;        /* 1: the twin becomes the endpoint */
	uint64_t maps, maps_size; /* its own: what /proc/self/maps said before Go ran */
	uint64_t heap_to;       /* where the heap has to end before the arenas are mapped; 0: it stays */
	uint64_t undos;         /* struct dp_undo_text *, in the last arena: the changes of all texts; 0: there are none */
	uint64_t undos_count;
	struct dp_arena *arenas; /* room for arenas_cap */
	struct dp_text *texts;
	uint8_t nonce[16];      /* of the table */
	char table[DP_PATH_MAX];
	char message[DP_LINE_MAX];
	char remark[DP_LINE_MAX]; /* to be said although it is counted; or empty */
};

#endif
