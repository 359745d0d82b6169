// SPDX-License-Identifier: MIT
/* pool.c - scratch memory for one stream.  Chunks from the allocator are cut into blocks; the smallest free block that
 * fits is taken, neighbours that are free become one again.
 *
 *   chunk   [ block used | block free ...... | block used | block free ]     blocks in order of address
 *
 * Block records are host memory and are recycled, so releasing a block never allocates and cannot fail. */
#include "memory.h"

#define ALIGN ((size_t)256)
#define MIN_CHUNK ((size_t)2 << 20)

struct block {
    struct block *prev, *next; /* neighbours in the chunk; next also links spare records */
    struct chunk *chunk;
    char *start;
    size_t size;
    bool used;
};

struct chunk {
    struct chunk *next;
    struct block *first;
    char *base;
    size_t size;
    bool recorded; /* a CUDA graph may hold pointers into it */
};

struct ingot_pool {
    struct chunk *chunks;
    struct block *spare;
    size_t in_use, held;
};

ingot_status ingot_pool_create(ingot_context *ctx, struct ingot_pool **out) {
    void *memory = NULL;
    ingot_status st = ingot_alloc(ctx, INGOT_MEMORY_HOST, sizeof(struct ingot_pool), &memory);

    *out = memory;
    if (st == INGOT_OK) **out = (struct ingot_pool){0};
    return st;
}

/* A chunk that is not in the list any more; its block records go back to the pool. */
static void free_chunk(ingot_context *ctx, struct ingot_pool *pool, struct chunk *chunk) {
    while (chunk->first) {
        struct block *block = chunk->first;
        chunk->first = block->next;
        block->next = pool->spare;
        pool->spare = block;
    }
    pool->held -= chunk->size;
    ingot_free(ctx, INGOT_MEMORY_DEVICE, chunk->base);
    ingot_free(ctx, INGOT_MEMORY_HOST, chunk);
}

void ingot_pool_destroy(ingot_context *ctx, struct ingot_pool *pool) {
    if (!pool) return;
    while (pool->chunks) {
        struct chunk *chunk = pool->chunks;
        pool->chunks = chunk->next;
        free_chunk(ctx, pool, chunk);
    }
    while (pool->spare) {
        struct block *block = pool->spare;
        pool->spare = block->next;
        ingot_free(ctx, INGOT_MEMORY_HOST, block);
    }
    ingot_free(ctx, INGOT_MEMORY_HOST, pool);
}

static ingot_status take_record(ingot_context *ctx, struct ingot_pool *pool, struct block **out) {
    void *memory = NULL;
    ingot_status st = INGOT_OK;

    if (pool->spare) {
        *out = pool->spare;
        pool->spare = pool->spare->next;
        return INGOT_OK;
    }
    st = ingot_alloc(ctx, INGOT_MEMORY_HOST, sizeof(struct block), &memory);
    *out = memory;
    return st;
}

static bool is_idle(const struct chunk *chunk) {
    return !chunk->recorded && !chunk->first->used && !chunk->first->next;
}

/* Gives idle chunks back to the allocator.  Waits for the stream, which may still be using them. */
static ingot_status trim(ingot_context *ctx, struct ingot_pool *pool) {
    struct chunk **link = &pool->chunks;
    ingot_status st = INGOT_OK;
    bool any = false;

    for (struct chunk *chunk = pool->chunks; chunk; chunk = chunk->next) any = any || is_idle(chunk);
    if (!any) return INGOT_OK;
    INGOT_CUDA(ctx, cudaStreamSynchronize(ctx->stream), st, done);
    while (*link) {
        struct chunk *chunk = *link;
        if (is_idle(chunk)) {
            *link = chunk->next;
            free_chunk(ctx, pool, chunk);
        } else {
            link = &chunk->next;
        }
    }

done:
    return st;
}

/* The size of a chunk for a request: an eighth of the power of two below it is the step, so that a request that creeps
 * up causes few allocations and wastes little. */
static size_t chunk_size(size_t need) {
    size_t step = MIN_CHUNK / 8;

    if (need <= MIN_CHUNK) return MIN_CHUNK;
    while (step * 16 <= need && step <= SIZE_MAX / 32) step *= 2;
    return need > SIZE_MAX - step ? need : (need + step - 1) / step * step;
}

/* Adds a chunk with one free block of at least `need` bytes. */
static ingot_status grow(ingot_context *ctx, struct ingot_pool *pool, size_t need, struct block **out) {
    ingot_status st = INGOT_OK;
    struct block *block = NULL;
    struct chunk *chunk;
    size_t size = chunk_size(need);
    void *record = NULL, *base = NULL;

    INGOT_TRY(trim(ctx, pool), st, done);
    INGOT_TRY(ingot_alloc(ctx, INGOT_MEMORY_HOST, sizeof *chunk, &record), st, done);
    INGOT_TRY(take_record(ctx, pool, &block), st, done);
    st = ingot_alloc(ctx, INGOT_MEMORY_DEVICE, size, &base);
    if (st == INGOT_ERR_DEVICE_MEMORY && size != need) {
        size = need;
        st = ingot_alloc(ctx, INGOT_MEMORY_DEVICE, size, &base);
    }
    if (st != INGOT_OK) goto done;
    chunk = record;
    *chunk = (struct chunk){.next = pool->chunks, .first = block, .base = base, .size = size};
    *block = (struct block){.chunk = chunk, .start = base, .size = size};
    pool->chunks = chunk;
    pool->held += size;
    *out = block;
    record = NULL;
    block = NULL;

done:
    if (block) {
        block->next = pool->spare;
        pool->spare = block;
    }
    ingot_free(ctx, INGOT_MEMORY_HOST, record);
    return st;
}

static struct block *best_fit(const struct ingot_pool *pool, size_t need) {
    struct block *best = NULL;

    for (const struct chunk *chunk = pool->chunks; chunk; chunk = chunk->next) {
        for (struct block *block = chunk->first; block; block = block->next) {
            if (!block->used && block->size >= need && (!best || block->size < best->size)) best = block;
        }
    }
    return best;
}

/* Cuts `block` down to `need` bytes; the rest becomes a free block behind it. */
static ingot_status split(ingot_context *ctx, struct ingot_pool *pool, struct block *block, size_t need) {
    struct block *rest = NULL;
    ingot_status st;

    if (block->size == need) return INGOT_OK;
    st = take_record(ctx, pool, &rest);
    if (st != INGOT_OK) return st;
    *rest = (struct block){.prev = block,
                           .next = block->next,
                           .chunk = block->chunk,
                           .start = block->start + need,
                           .size = block->size - need};
    if (rest->next) rest->next->prev = rest;
    block->next = rest;
    block->size = need;
    return INGOT_OK;
}

ingot_status ingot_pool_alloc(ingot_context *ctx, struct ingot_pool *pool, size_t bytes, void **out) {
    const bool capturing = ingot_is_capturing(ctx);
    const size_t need = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    struct block *block;
    ingot_status st = INGOT_OK;

    *out = NULL;
    if (bytes == 0) return INGOT_OK;
    if (bytes > SIZE_MAX - ALIGN) return ingot_fail(ctx, INGOT_ERR_DEVICE_MEMORY, "scratch of %zu bytes", bytes);
    block = best_fit(pool, need);
    if (!block) {
        if (capturing) {
            return ingot_fail(ctx, INGOT_ERR_STATE,
                              "%zu bytes of scratch are missing while the stream records a CUDA "
                              "graph: run the same call once before recording",
                              bytes);
        }
        INGOT_TRY(grow(ctx, pool, need, &block), st, done);
    }
    INGOT_TRY(split(ctx, pool, block, need), st, done);
    block->used = true;
    block->chunk->recorded = block->chunk->recorded || capturing;
    pool->in_use += block->size;
    *out = block->start;

done:
    return st;
}

/* Makes one block of `block` and the free one behind it. */
static void join_next(struct ingot_pool *pool, struct block *block) {
    struct block *next = block->next;

    if (!next || next->used) return;
    block->size += next->size;
    block->next = next->next;
    if (block->next) block->next->prev = block;
    next->next = pool->spare;
    pool->spare = next;
}

static struct block *find_used(const struct ingot_pool *pool, const void *ptr) {
    const uintptr_t at = (uintptr_t)ptr;

    for (const struct chunk *chunk = pool->chunks; chunk; chunk = chunk->next) {
        if (at < (uintptr_t)chunk->base || at - (uintptr_t)chunk->base >= chunk->size) continue;
        for (struct block *block = chunk->first; block; block = block->next) {
            if (block->used && block->start == ptr) return block;
        }
    }
    return NULL;
}

void ingot_pool_free(struct ingot_pool *pool, void *ptr) {
    struct block *block = ptr ? find_used(pool, ptr) : NULL;

    if (!block) return;
    block->used = false;
    pool->in_use -= block->size;
    join_next(pool, block);
    if (block->prev && !block->prev->used) join_next(pool, block->prev);
}

void ingot_pool_usage(const struct ingot_pool *pool, size_t *in_use, size_t *held) {
    if (in_use) *in_use = pool->in_use;
    if (held) *held = pool->held;
}
