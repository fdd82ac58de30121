#define _GNU_SOURCE
#include "platform/elf_image.h"

#include <elf.h>
#include <string.h>
#include <sys/auxv.h>

#if defined(__x86_64__)
enum { CALL_JUMP_SLOT = R_X86_64_JUMP_SLOT, CALL_GLOB_DAT = R_X86_64_GLOB_DAT, POINTER = R_X86_64_64 };
#else
enum { CALL_JUMP_SLOT = R_AARCH64_JUMP_SLOT, CALL_GLOB_DAT = R_AARCH64_GLOB_DAT, POINTER = R_AARCH64_ABS64 };
#endif

/* The contents of the dynamic section. */
struct tables {
    uintptr_t bias;
    const char *strings;
    size_t string_bytes;
    const ElfW(Sym) * symbols;
    const ElfW(Half) * versions;
    const uint32_t *gnu_hash, *hash;
    const ElfW(Rela) * relocations, *call_relocations;
    size_t relocation_count, relative_count, call_relocation_count;
};

static struct tables read_tables(const struct link_map *image) {
    struct tables tables = {.bias = image->l_addr};
    bool rela = true;
    if (!image->l_ld) return tables;
    for (const ElfW(Dyn) *entry = image->l_ld; entry->d_tag != DT_NULL; entry++) {
        uintptr_t value = entry->d_un.d_val;
        /* glibc relocates these pointers in place, except where .dynamic is read-only (the vdso). */
        const void *pointer = (const void *)(value < image->l_addr ? value + image->l_addr : value);
        switch (entry->d_tag) {
        case DT_STRTAB: tables.strings = pointer; break;
        case DT_STRSZ: tables.string_bytes = value; break;
        case DT_SYMTAB: tables.symbols = pointer; break;
        case DT_VERSYM: tables.versions = pointer; break;
        case DT_GNU_HASH: tables.gnu_hash = pointer; break;
        case DT_HASH: tables.hash = pointer; break;
        case DT_RELA: tables.relocations = pointer; break;
        case DT_RELASZ: tables.relocation_count = value / sizeof(ElfW(Rela)); break;
        case DT_RELACOUNT: tables.relative_count = value; break;
        case DT_JMPREL: tables.call_relocations = pointer; break;
        case DT_PLTRELSZ: tables.call_relocation_count = value / sizeof(ElfW(Rela)); break;
        case DT_PLTREL: rela = value == DT_RELA; break;
        default: break;
        }
    }
    if (!tables.relocations) tables.relocation_count = 0;
    if (!tables.call_relocations || !rela) tables.call_relocation_count = 0;
    if (tables.relative_count > tables.relocation_count) tables.relative_count = 0;
    return tables;
}

static const char *name_of(const struct tables *tables, const ElfW(Sym) * symbol) {
    return symbol->st_name < tables->string_bytes ? tables->strings + symbol->st_name : "";
}

enum { VERSION_HIDDEN = 0x8000 };

static bool is_definition(const struct tables *tables, uint32_t index, const char *name) {
    const ElfW(Sym) *symbol = &tables->symbols[index];
    unsigned type = ELF64_ST_TYPE(symbol->st_info), binding = ELF64_ST_BIND(symbol->st_info);
    if (symbol->st_shndx == SHN_UNDEF || symbol->st_value == 0 || type == STT_TLS) return false;
    if (binding != STB_GLOBAL && binding != STB_WEAK && binding != STB_GNU_UNIQUE) return false;
    if (tables->versions && tables->versions[index] & VERSION_HIDDEN) return false;
    return strcmp(name_of(tables, symbol), name) == 0;
}

/* Layout: {buckets, first hashed symbol, bloom words, bloom shift}, bloom filter, buckets, chains. */
static const ElfW(Sym) * find_by_gnu_hash(const struct tables *tables, const char *name) {
    const uint32_t *table = tables->gnu_hash;
    uint32_t buckets = table[0], first = table[1], bloom_words = table[2], shift = table[3], hash = 5381;
    for (const char *c = name; *c; c++) hash = hash * 33 + (unsigned char)*c;
    if (buckets == 0 || bloom_words == 0) return NULL;

    const ElfW(Addr) *bloom = (const ElfW(Addr) *)(table + 4);
    unsigned bits = 8 * sizeof *bloom;
    ElfW(Addr) word = bloom[hash / bits % bloom_words];
    if (!(word >> hash % bits & word >> (hash >> shift) % bits & 1)) return NULL;

    const uint32_t *bucket = (const uint32_t *)(bloom + bloom_words), *chain = bucket + buckets;
    for (uint32_t index = bucket[hash % buckets]; index >= first; index++) {
        uint32_t entry = chain[index - first];
        if ((entry | 1) == (hash | 1) && is_definition(tables, index, name)) return &tables->symbols[index];
        if (entry & 1) break; /* the last of its chain */
    }
    return NULL;
}

static const ElfW(Sym) * find_by_hash(const struct tables *tables, const char *name) {
    uint32_t buckets = tables->hash[0], symbols = tables->hash[1], hash = 0;
    const uint32_t *bucket = tables->hash + 2, *chain = bucket + buckets;
    for (const char *c = name; *c; c++) {
        hash = (hash << 4) + (unsigned char)*c;
        uint32_t top = hash & 0xf0000000u;
        hash = (hash ^ top >> 24) & ~top;
    }
    if (buckets == 0) return NULL;
    uint32_t steps = 0;
    for (uint32_t index = bucket[hash % buckets]; index && index < symbols && steps++ < symbols; index = chain[index])
        if (is_definition(tables, index, name)) return &tables->symbols[index];
    return NULL;
}

static void *address_of(const struct tables *tables, const ElfW(Sym) * symbol) {
    uintptr_t address = symbol->st_value + (symbol->st_shndx == SHN_ABS ? 0 : tables->bias);
    if (ELF64_ST_TYPE(symbol->st_info) != STT_GNU_IFUNC) return (void *)address;
    /* The second argument, aarch64's struct of further words, is read only when the flag bit of the first says so. */
    return (void *)((uintptr_t (*)(uint64_t, void *))address)(getauxval(AT_HWCAP), NULL);
}

void *elf_symbol(const struct link_map *image, const char *name) {
    struct tables tables = read_tables(image);
    if (!tables.symbols || !tables.strings) return NULL;
    const ElfW(Sym) *symbol = NULL;
    if (tables.gnu_hash) symbol = find_by_gnu_hash(&tables, name);
    else if (tables.hash) symbol = find_by_hash(&tables, name);
    return symbol ? address_of(&tables, symbol) : NULL;
}

struct visit {
    elf_image_visitor *visit;
    void *context;
};

static int visit_image(struct dl_phdr_info *info, size_t bytes, void *context) {
    (void)bytes;
    const struct visit *visit = context;
    uintptr_t page = getauxval(AT_PAGESZ), low = UINTPTR_MAX, high = 0;
    struct elf_image image = {
        .map = {.l_addr = info->dlpi_addr, .l_name = (char *)info->dlpi_name},
        .headers = info->dlpi_phdr,
        .header_count = info->dlpi_phnum,
        /* Not AT_BASE, which is 0 when the program is started as an argument of ld.so. */
        .loader = info->dlpi_addr == _r_debug.r_ldbase,
    };
    for (size_t i = 0; i < image.header_count; i++) {
        const ElfW(Phdr) *header = &image.headers[i];
        if (header->p_type == PT_DYNAMIC) image.map.l_ld = (ElfW(Dyn) *)(info->dlpi_addr + header->p_vaddr);
        if (header->p_type != PT_LOAD) continue;
        if (header->p_vaddr < low) low = header->p_vaddr;
        if (header->p_vaddr + header->p_memsz > high) high = header->p_vaddr + header->p_memsz;
    }
    if (low >= high) return 0;
    image.start = info->dlpi_addr + (low & -page);
    image.end = info->dlpi_addr + high;
    image.vdso = image.start == getauxval(AT_SYSINFO_EHDR);
    return visit->visit(&image, visit->context);
}

bool elf_each_image(elf_image_visitor *visit, void *context) {
    struct visit all = {visit, context};
    return dl_iterate_phdr(visit_image, &all) != 0;
}

bool elf_covers(const struct elf_image *image, uintptr_t address, size_t length) {
    for (size_t i = 0; i < image->header_count; i++) {
        const ElfW(Phdr) *header = &image->headers[i];
        uintptr_t start = image->map.l_addr + header->p_vaddr;
        if (header->p_type == PT_LOAD && address >= start && length <= header->p_memsz &&
            address - start <= header->p_memsz - length)
            return true;
    }
    return false;
}

struct next {
    const char *name;
    uintptr_t after;
    void *before, *behind; /* found before and behind the image that holds `after` */
    bool passed;           /* the visit has met that image */
    bool at_start_up;      /* that image stands before the loader, as only images of start-up do */
    bool loader;           /* the visit has met the loader */
};

static bool is_next(const struct elf_image *image, void *context) {
    struct next *next = context;
    if (next->after >= image->start && next->after < image->end) {
        next->passed = true;
        next->at_start_up = !next->loader;
        return false;
    }
    next->loader |= image->loader;
    if (image->vdso) return false;
    void **found = next->passed ? &next->behind : &next->before;
    if (!*found) *found = elf_symbol(&image->map, next->name);
    return next->passed && next->at_start_up && next->behind;
}

void *elf_next_symbol(const void *after, const char *name) {
    struct next next = {.name = name, .after = (uintptr_t)after};
    elf_each_image(is_next, &next);
    if (next.at_start_up) return next.behind ? next.behind : next.before;
    return next.before ? next.before : next.behind;
}

static void visit_slots(const struct tables *tables, const ElfW(Rela) * relocations, size_t count,
                        elf_slot_visitor *visit, void *context) {
    for (size_t i = 0; i < count; i++) {
        const ElfW(Rela) *relocation = &relocations[i];
        uint32_t type = ELF64_R_TYPE(relocation->r_info), index = ELF64_R_SYM(relocation->r_info);
        bool pointer = type == POINTER && relocation->r_addend == 0;
        if (index == 0 || !(type == CALL_JUMP_SLOT || type == CALL_GLOB_DAT || pointer)) continue;
        const ElfW(Sym) *symbol = &tables->symbols[index];
        visit((void **)(tables->bias + relocation->r_offset), name_of(tables, symbol),
              pointer ? ELF_SLOT_POINTER : ELF_SLOT_CALL, symbol->st_shndx != SHN_UNDEF, context);
    }
}

void elf_each_slot(const struct link_map *image, elf_slot_visitor *visit, void *context) {
    struct tables tables = read_tables(image);
    if (!tables.symbols || !tables.strings) return;
    /* Relative relocations come first and name no symbol; libjvm has a hundred thousand. */
    visit_slots(&tables, tables.relocations + tables.relative_count, tables.relocation_count - tables.relative_count,
                visit, context);
    visit_slots(&tables, tables.call_relocations, tables.call_relocation_count, visit, context);
}
