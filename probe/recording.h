/*
 * The live file: the probe writes it inside the process, Python reads it outside.
 * This header is the whole contract; src/offheap/probe/contract.py mirrors it
 * and tests/probe/store/test_contract.py compares the two, field by field.
 *
 * The file is mapped MAP_SHARED and written in place: reading it never pauses the process,
 * and kill -9 loses nothing that was written.  All integers are little-endian.
 *
 *   0      +-----------------------------+
 *          | struct offheap_header       |  4096 bytes
 *   4096   +-----------------------------+
 *          | section 0  (STRINGS)        |  each section starts on a 4096-byte
 *          | section 1  (MODULES)        |  boundary; header.sections[] has its
 *          | ...                         |  offset, the number of its rows and
 *          +-----------------------------+  the length of a row
 *
 * Two kinds of sections:
 *   append-only  rows [0, used) never change once complete (STRINGS, LINES, FRAMES,
 *                STACKS, PROPERTIES, MODULES, THREADS).  A row of STACKS, PROPERTIES,
 *                MODULES or THREADS is complete when its first field (MODULES: `end`) is
 *                not 0: the probe stores it last, with release order.  Rows of STRINGS,
 *                LINES and FRAMES are complete when a complete row refers to them.
 *   slots        every row of the capacity may be in use or free
 *                (METHODS, KEYS+VALUES, RANGES, COUNTERS).  A reader copies
 *                KEYS, VALUES (or RANGES) twice and keeps the rows that are equal
 *                in both copies: a row that differs changed in between.
 *
 * KEYS and VALUES are the first segment of the live table.  When it fills up, more follow behind the last section
 * (header.segment[]).  A block never moves to another segment.
 */
#ifndef OFFHEAP_RECORDING_H
#define OFFHEAP_RECORDING_H

#include <stdint.h>

#define OFFHEAP_MAGIC "OFFHEAP\n" /* eight bytes, no terminator */
#define OFFHEAP_VERSION 3u        /* a reader refuses a greater one; 2: segments; 3: Java objects */
#define OFFHEAP_HEADER_BYTES 4096u

/* Start-up moves the state from INITIAL to RECORDING last, so a reader never sees half a header. */
enum offheap_state {
    OFFHEAP_INITIAL = 0,   /* the probe creates the file */
    OFFHEAP_RECORDING = 1, /* hooks write */
    OFFHEAP_STOPPED = 2,   /* detached: the probe writes no more */
    OFFHEAP_EXITED = 3,    /* the process ended by exit() */
};

enum offheap_mode { OFFHEAP_SAMPLED = 1, OFFHEAP_EXACT = 2 };

/* How the probe was loaded. */
enum offheap_entry { OFFHEAP_PRELOAD = 1, OFFHEAP_AGENTPATH = 2, OFFHEAP_ATTACH = 3 };

enum offheap_section_id {
    OFFHEAP_STRINGS,    /* u8      NUL-terminated UTF-8 (modified UTF-8 from the JVM); offset 0 is "" */
    OFFHEAP_MODULES,    /* offheap_module */
    OFFHEAP_METHODS,    /* offheap_method; slot = method index of a Java frame */
    OFFHEAP_LINES,      /* offheap_line; a method's rows are consecutive */
    OFFHEAP_THREADS,    /* offheap_thread; row 0 is "other threads" */
    OFFHEAP_FRAMES,     /* u64     frames, innermost first; "A frame" below */
    OFFHEAP_STACKS,     /* offheap_stack; row 0 is "no stack" */
    OFFHEAP_COUNTERS,   /* offheap_counters; row = stack * counter_shards + shard */
    OFFHEAP_KEYS,       /* u64     live blocks: address, or 0; bit 0 set while written; "A Java object" below */
    OFFHEAP_VALUES,     /* offheap_value; same slot as its key */
    OFFHEAP_RANGES,     /* offheap_range; live mappings */
    OFFHEAP_PROPERTIES, /* offheap_property */
    OFFHEAP_SECTIONS    /* number of sections */
};

struct offheap_section {
    uint64_t offset;   /* from the start of the file */
    uint64_t capacity; /* rows */
    uint64_t used;     /* append-only sections: rows; slots: rows in use, approximately */
    uint32_t row_bytes;
    uint32_t reserved;
};

/* What the probe does not record, each with its count.  A recording without loss has only zeros. */
enum offheap_loss {
    OFFHEAP_LOST_BLOCKS,    /* sampled blocks that found the live table full */
    OFFHEAP_LOST_RANGES,    /* mappings that found the range table full or busy */
    OFFHEAP_LOST_UNMAPS,    /* munmaps not recorded: range table busy */
    OFFHEAP_LOST_STACKS,    /* samples filed under "no stack": stack or frame table full */
    OFFHEAP_LOST_METHODS,   /* Java frames without a name: method table full */
    OFFHEAP_LOST_STRINGS,   /* names cut: string table full */
    OFFHEAP_LOST_THREADS,   /* blocks filed under "other threads" */
    OFFHEAP_LOST_MODULES,   /* modules without a row: their frames are raw addresses */
    OFFHEAP_LOST_UNWINDS,   /* samples whose native stack ended early */
    OFFHEAP_LOST_JAVA,      /* samples without their Java frames */
    OFFHEAP_LOST_REENTRIES, /* samples due inside the probe (signal handlers) */
    OFFHEAP_TRUNCATED,      /* stacks cut at the depth limit */
    OFFHEAP_JAVA_JOINED,    /* not a loss: samples whose native and Java frames were joined */
    OFFHEAP_JAVA_INEXACT,   /* joined samples with a compiled method whose inlined methods are not known */
    OFFHEAP_LOST_OBJECTS,   /* sampled Java objects that found no place among the followed ones */
    OFFHEAP_LOSSES = 16
};

/* What the recording does not cover, as bits of header.coverage. */
enum offheap_coverage {
    OFFHEAP_BEFORE_ATTACH = 1 << 0,   /* blocks older than the attach are not known */
    OFFHEAP_NO_DLSYM = 1 << 1,        /* allocators found by dlsym before the attach are not hooked */
    OFFHEAP_NO_LDSO = 1 << 2,         /* the dynamic linker's own blocks and pthread stacks are not recorded */
    OFFHEAP_NO_JVM = 1 << 3,          /* no JVM in the process yet: native frames only */
    OFFHEAP_NO_JAVA_FRAMES = 1 << 4,  /* a JVM without AsyncGetCallTrace: native frames only */
    OFFHEAP_NO_METHOD_NAMES = 1 << 5, /* JVMTI refused: Java frames without names */
    OFFHEAP_CHAINED = 1 << 6,         /* another allocator than libc's serves malloc */
    OFFHEAP_WAS_IDLE = 1 << 7,        /* a preloaded probe that was idle: threads keep their earlier countdown */
    OFFHEAP_SHORT_OF_MEMORY = 1 << 8, /* tables are smaller than requested, or could not grow */
};

/* Does the recording follow Java objects, and if not, why not? */
enum offheap_java_heap {
    OFFHEAP_JAVA_HEAP_NOT_REQUESTED = 0,
    OFFHEAP_JAVA_HEAP_REQUESTED = 1, /* the probe has met no JVM yet */
    OFFHEAP_JAVA_HEAP_FOLLOWED = 2,
    OFFHEAP_JAVA_HEAP_TAKEN = 3,       /* another agent holds the capability, which only one may have */
    OFFHEAP_JAVA_HEAP_UNAVAILABLE = 4, /* this JVM has no such event (JDK 8, OpenJ9) */
};

/* A further part of the live table: `capacity` keys, then `capacity` values. */
struct offheap_segment {
    uint64_t offset; /* from the start of the file */
    uint64_t capacity;
};
#define OFFHEAP_SEGMENTS 12

/* One page.  clang-format would break the column of offsets. */
/* clang-format off */
struct offheap_header {
    char magic[8];                /*    0 */
    uint32_t version;             /*    8 */
    uint32_t header_bytes;        /*   12 */
    uint64_t file_bytes;          /*   16  a shorter file is truncated; stored before `segments` when the table grows */
    uint32_t state;               /*   24  enum offheap_state */
    uint32_t mode;                /*   28  enum offheap_mode */
    uint32_t entry;               /*   32  enum offheap_entry */
    int32_t pid;                  /*   36  in the process's own PID namespace */
    uint32_t uid;                 /*   40 */
    uint32_t tick_ns;             /*   44  unit of births: 10,000,000 */
    uint64_t process_start;       /*   48  /proc/self/stat field 22, clock ticks since boot */
    uint64_t start_realtime_ns;   /*   56  CLOCK_REALTIME when recording started */
    uint64_t start_monotonic_ns;  /*   64  CLOCK_MONOTONIC at the same moment; births count from it */
    uint64_t stop_monotonic_ns;   /*   72  0 while recording */
    uint64_t coverage;            /*   80  enum offheap_coverage */
    uint32_t counter_shards;      /*   88 */
    uint32_t keys_per_bucket;     /*   92  8 */
    uint64_t heartbeat_ns;        /*   96  CLOCK_MONOTONIC of the last sample or agent tick */
    char probe_version[24];       /*  104 */
    uint64_t losses[OFFHEAP_LOSSES]; /* 128 */
    struct offheap_section sections[16]; /* 256  OFFHEAP_SECTIONS are used */
    uint64_t intervals[256];      /*  768  mean bytes between samples, by a block's interval code.  [0] = 0: every block
                                           (weight 1).  A budget fills in all codes that it may choose, ascending */
    uint64_t budget_ppm;          /* 2816  CPU that sampling may take, in millionths of the process's; 0: no budget.
                                           Without a budget the probe does not write the next seven */
    uint64_t cpu_ns;              /* 2824  the process's CPU time from the start to the budget's last adjustment */
    uint64_t spent_ns;            /* 2832  the part of cpu_ns that samples took */
    uint64_t adjusted_ns;           /* 2840  CLOCK_MONOTONIC of the last adjustment */
    double inverse_seconds;       /* 2848  integral of 1/interval over time up to the last adjustment, seconds/byte; the
                                           least of all size classes */
    uint32_t interval_code;       /* 2856  code since the last adjustment, of the class sampled most rarely */
    uint32_t greatest_code;       /* 2860  greatest code so far, of any class */
    uint32_t least_code;          /* 2864  least code so far, of any class */
    uint32_t kept;                /* 2868  1: the file stays after its process has ended, until a person removes it */
    uint64_t recorder_pid;        /* 2872  the offheap that the file was made for, 0: none.  The file is garbage when */
    uint64_t recorder_start;      /* 2880  that process (by field 22 of its /proc/PID/stat and the inode of its PID */
    uint64_t recorder_namespace;  /* 2888  namespace) has ended and the probe writes no more */
    uint64_t memory_bound;        /* 2896  bytes that the probe may take, the growth of the live table included */
    uint64_t segments;            /* 2904  segments of the live table in use, without the first; stored last */
    struct offheap_segment segment[OFFHEAP_SEGMENTS]; /* 2912 */
    uint32_t java_heap;           /* 3104  enum offheap_java_heap; the next eight are 0 unless objects are followed */
    uint32_t java_code;           /* 3108  interval code of the next Java objects */
    uint64_t java_spent_ns;       /* 3112  CPU that samples of Java objects took; not a part of spent_ns */
    uint64_t java_collections;    /* 3120  garbage collections, or their pauses, since the start */
    uint32_t java_collected;      /* 3128  tick: begin of the last collection, or pause of one, whose dead objects have
                                           left the table */
    uint32_t java_followed;       /* 3132  objects that are followed now */
    uint32_t java_most;           /* 3136  objects that can be followed */
    uint32_t java_thinned;        /* 3140  times that followed objects were thinned */
    uint64_t java_swept_ns;       /* 3144  CLOCK_MONOTONIC at the begin of the last sweep: objects that were dead to the
                                           collector then have left the table */
    uint64_t reserved[118];       /* 3152 */
};
/* clang-format on */

/*
 * A frame:
 *
 *   63    60 59              40 39                                   0
 *   +-------+------------------+-------------------------------------+
 *   | 1     | module row       | return address - module.bias        |  NATIVE
 *   +-------+------------------+-------------------------------------+
 *   | 0     | 0                | return address in no module (bits 0..47) |  ADDRESS
 *   +-------+--------+---------+----------------+--------------------+
 *   | 2     | 0 59..56 | method slot, bits 24..55 | bci, bits 0..23  |  JAVA
 *   +-------+------------------+----------------+--------------------+
 *   | 3     | the hooked function, enum offheap_hook                 |  HOOK
 *   | 4     | why Java frames are missing: minus AsyncGetCallTrace's |  GAP
 *   |       | num_frames, or 255: the unwinder lost its way          |
 *   | 5     | class signature, a STRINGS offset: Ljava/lang/String;  |  CLASS
 *   +-------+--------------------------------------------------------+
 *
 * Native addresses are return addresses: look up address - 1.  A bci is a
 * 24-bit two's complement number: -3 a native method, -4 an unknown place in a compiled
 * method or in a method inlined there; other negatives unknown.
 * Innermost first: the HOOK frame, native frames, then Java frames.  The stack of a Java object has a CLASS frame, the
 * object's class, instead of the HOOK frame, and no native frames inside its Java frames.
 */
#define OFFHEAP_FRAME_KIND_SHIFT 60
enum offheap_frame_kind {
    OFFHEAP_FRAME_ADDRESS = 0,
    OFFHEAP_FRAME_NATIVE = 1,
    OFFHEAP_FRAME_JAVA = 2,
    OFFHEAP_FRAME_HOOK = 3,
    OFFHEAP_FRAME_GAP = 4,
    OFFHEAP_FRAME_CLASS = 5,
};
#define OFFHEAP_FRAME_MODULE_SHIFT 40
#define OFFHEAP_FRAME_ADDRESS_MASK ((UINT64_C(1) << 40) - 1)
#define OFFHEAP_FRAME_METHOD_SHIFT 24
#define OFFHEAP_GAP_UNWINDER 255

/* The hooked functions, in the order of enum offheap_hook: OFFHEAP_HOOK(symbol). */
#define OFFHEAP_HOOKS(OFFHEAP_HOOK)  \
    OFFHEAP_HOOK(malloc)             \
    OFFHEAP_HOOK(calloc)             \
    OFFHEAP_HOOK(realloc)            \
    OFFHEAP_HOOK(reallocarray)       \
    OFFHEAP_HOOK(memalign)           \
    OFFHEAP_HOOK(aligned_alloc)      \
    OFFHEAP_HOOK(posix_memalign)     \
    OFFHEAP_HOOK(valloc)             \
    OFFHEAP_HOOK(pvalloc)            \
    OFFHEAP_HOOK(free)               \
    OFFHEAP_HOOK(cfree)              \
    OFFHEAP_HOOK(free_sized)         \
    OFFHEAP_HOOK(free_aligned_sized) \
    OFFHEAP_HOOK(mmap)               \
    OFFHEAP_HOOK(mmap64)             \
    OFFHEAP_HOOK(munmap)             \
    OFFHEAP_HOOK(mremap)             \
    OFFHEAP_HOOK(dlopen)             \
    OFFHEAP_HOOK(dlclose)            \
    OFFHEAP_HOOK(dlsym)

#define OFFHEAP_HOOK_ENUM(symbol) OFFHEAP_HOOK_##symbol,
enum offheap_hook { OFFHEAP_HOOKS(OFFHEAP_HOOK_ENUM) OFFHEAP_HOOK_COUNT };

struct offheap_module {     /* 80 bytes */
    uint64_t start;         /* first mapped address */
    uint64_t end;           /* past the last mapped address */
    uint64_t bias;          /* mapped address - ELF virtual address */
    uint32_t path;          /* STRINGS */
    uint32_t born;          /* tick when the probe first met the module */
    uint32_t gone;          /* tick of its dlclose, 0 while it is loaded */
    uint8_t build_id_bytes; /* 0: no build ID */
    uint8_t build_id[32];
    uint8_t reserved[3];
    uint32_t image; /* 0, or 1 + the process's descriptor of a file whose path is deleted or may be soon.  The probe
                         * opens the file after the row is complete, and closes it at the end of the recording or
                         * before */
    uint8_t reserved_too[4];
};
/* Parts of `image`.  IN_MEMORY: the file is a copy of the module's memory from `start` on, as much as the exports
 * need. */
#define OFFHEAP_IMAGE_DESCRIPTOR 0x7fffffffu
#define OFFHEAP_IMAGE_IN_MEMORY 0x80000000u

enum offheap_method_state {
    OFFHEAP_METHOD_FREE = 0,
    OFFHEAP_METHOD_SEEN = 1,     /* in a stack; the agent thread has not named it yet */
    OFFHEAP_METHOD_NAMED = 2,    /* the fields below are complete */
    OFFHEAP_METHOD_UNLOADED = 3, /* its class was unloaded before the agent thread named it */
};

struct offheap_method {       /* 40 bytes */
    uint64_t id;              /* jmethodID */
    uint32_t state;           /* enum offheap_method_state, stored last */
    uint32_t class_signature; /* STRINGS: Ljava/util/zip/Inflater; */
    uint32_t name;            /* STRINGS */
    uint32_t signature;       /* STRINGS */
    uint32_t source_file;     /* STRINGS, or 0 */
    uint32_t lines;           /* first row in LINES */
    uint32_t line_count;
    uint32_t reserved;
};

struct offheap_line { /* 8 bytes; sorted by start within a method */
    uint32_t start;   /* bci */
    uint32_t line;
};

struct offheap_thread { /* 64 bytes; one row per distinct name */
    uint32_t tid;       /* the first thread of that name */
    char name[60];
};

enum offheap_stack_kind { OFFHEAP_MALLOC = 1, OFFHEAP_MMAP = 2, OFFHEAP_JAVA = 3 };
enum offheap_stack_flags { OFFHEAP_STACK_TRUNCATED = 1, OFFHEAP_STACK_INCOMPLETE = 2 };

struct offheap_stack { /* 24 bytes */
    uint64_t hash;
    uint32_t frames; /* first row in FRAMES */
    uint16_t depth;  /* rows in FRAMES */
    uint8_t kind;    /* enum offheap_stack_kind */
    uint8_t flags;   /* enum offheap_stack_flags */
    uint32_t born;   /* tick of its first sample */
    uint32_t reserved;
};

/*
 * Sums over every sample of a stack since the start, freed or not.  With p the
 * inclusion probability of a sampled block of s bytes, p = 1 - exp(-s/interval):
 * Horvitz-Thompson totals and their variance estimates.
 */
struct offheap_counters { /* 64 bytes, one cache line */
    uint64_t samples;
    uint64_t
        blocks; /* sum of 1/p, in 1/65536; not written for the blocks of an exact recording, where it equals samples */
    uint64_t bytes;           /* sum of s/p */
    uint64_t blocks_variance; /* sum of (1-p)/p^2 */
    uint64_t bytes_variance;  /* sum of s^2 (1-p)/p^2, in KiB^2 */
    uint64_t reserved[3];
};

/*
 *   63      48 47     40 39                                 0
 *   +---------+---------+-----------------------------------+
 *   | thread  | interval| requested size (saturates)        |  block
 *   +---------+---------+-----------------------------------+
 */
struct offheap_value { /* 16 bytes */
    uint64_t block;
    uint32_t stack;
    uint32_t birth; /* ticks */
};
#define OFFHEAP_VALUE_SIZE_MASK ((UINT64_C(1) << 40) - 1)
#define OFFHEAP_VALUE_INTERVAL_SHIFT 40
#define OFFHEAP_VALUE_THREAD_SHIFT 48

/*
 * A Java object: a row of KEYS and VALUES like a block, under a key that is no address:
 *
 *   63 62 61                      40 39                          0
 *   +-+--+--------------------------+-----------------------------+
 *   |0|1 | number                   | 0                           |
 *   +-+--+--------------------------+-----------------------------+
 *
 * Its interval code is OFFHEAP_JAVA_CODE or greater; each code has twice the mean of the code before.  When followed
 * objects are thinned, the objects that stay get a greater code, as if they had been sampled under that code.
 */
#define OFFHEAP_OBJECT_KEY (UINT64_C(1) << 62)
#define OFFHEAP_OBJECT_SHIFT 40
#define OFFHEAP_OBJECT_NUMBER_MASK ((UINT32_C(1) << 22) - 1)
#define OFFHEAP_JAVA_CODE 224u

struct offheap_range { /* 40 bytes; start == 0: free slot; start is stored last */
    uint64_t start;
    uint64_t end;
    uint64_t length_at_birth; /* the inclusion probability follows from it */
    uint32_t stack;
    uint32_t birth;
    uint16_t thread;
    uint8_t interval; /* code */
    uint8_t reserved[5];
};

struct offheap_property { /* 8 bytes, e.g. java.vm.version */
    uint32_t key;         /* STRINGS */
    uint32_t value;       /* STRINGS */
};

#define OFFHEAP_ASSERT(what) _Static_assert(what, #what)
OFFHEAP_ASSERT(sizeof(struct offheap_header) == OFFHEAP_HEADER_BYTES);
OFFHEAP_ASSERT(sizeof(struct offheap_section) == 32);
OFFHEAP_ASSERT(sizeof(struct offheap_segment) == 16);
OFFHEAP_ASSERT(sizeof(struct offheap_module) == 80);
OFFHEAP_ASSERT(sizeof(struct offheap_method) == 40);
OFFHEAP_ASSERT(sizeof(struct offheap_thread) == 64);
OFFHEAP_ASSERT(sizeof(struct offheap_stack) == 24);
OFFHEAP_ASSERT(sizeof(struct offheap_counters) == 64);
OFFHEAP_ASSERT(sizeof(struct offheap_value) == 16);
OFFHEAP_ASSERT(sizeof(struct offheap_range) == 40);

#endif
