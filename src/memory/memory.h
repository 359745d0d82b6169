// SPDX-License-Identifier: MIT
/* memory.h - device memory behind a context: the stream-ordered scratch pool. */
#ifndef INGOT_MEMORY_H
#define INGOT_MEMORY_H

#include "../base/base.h"

/* A pool serves scratch to one stream.  A block is free again for later work of that stream as soon as it is released:
 * no synchronisation.  It grows by whole chunks from the context's allocator: then it waits for the stream and gives
 * idle chunks back first, so a request that grows bit by bit does not pile them up.  Chunks that a recorded CUDA graph may
 * point into are kept until the pool is destroyed.  Under capture it never grows: INGOT_ERR_STATE. */
ingot_status ingot_pool_create(ingot_context *ctx, struct ingot_pool **out);
void         ingot_pool_destroy(ingot_context *ctx, struct ingot_pool *pool);
/* Aligned to 256 bytes.  0 bytes gives NULL.  A failure leaves the pool usable. */
ingot_status ingot_pool_alloc(ingot_context *ctx, struct ingot_pool *pool, size_t bytes, void **out);
void         ingot_pool_free(struct ingot_pool *pool, void *ptr); /* accepts NULL */
void         ingot_pool_usage(const struct ingot_pool *pool, size_t *in_use, size_t *held);

#endif
