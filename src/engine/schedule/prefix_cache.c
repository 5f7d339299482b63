/* SPDX-License-Identifier: Apache-2.0 */
/* Prefix caching: a full KV block is identified by the digest of all tokens and images up to its
 * end. */
#include "engine/schedule/schedule_internal.h"

/* Returns the key of full block `at`, the digest of all tokens before its end. An image's tokens
 * share one id, so the image's digest is hashed too. */
static struct digest kv_block_key(struct engine_caches *caches, const ey_generation *gen, int at,
                                  const struct digest *before)
{
    int32_t token[KV_BLOCK];
    size_t first = (size_t)at * KV_BLOCK;
    for (int i = 0; i < KV_BLOCK; i++)
        token[i] = generation_token_at(gen, (int)first + i);
    hasher_start(caches->hasher);
    if (at) hasher_add(caches->hasher, before, sizeof(*before));
    hasher_add(caches->hasher, token, sizeof(token));
    for (size_t i = 0; i < gen->prompt->n_images; i++) {
        const struct prompt_image *p = &gen->prompt->images[i];
        if (p->span.first >= first + KV_BLOCK || prompt_image_ends_before(p, first)) continue;
        int32_t offset = (int32_t)((int64_t)p->span.first - (int64_t)first);
        hasher_add(caches->hasher, &offset, sizeof(offset));
        hasher_add(caches->hasher, &p->digest, sizeof(p->digest));
    }
    return hasher_end(caches->hasher);
}

void reuse_prefix(struct engine_caches *caches, ey_generation *gen)
{
    const bool computes_all = gen->no_prefix_cache || prompt_scores_pending(&gen->prompt_scores);
    int limit = computes_all ? 0 : (generation_known_tokens(gen) - 1) / KV_BLOCK;
    while (gen->n_blocks < limit) {
        struct digest key = kv_block_key(caches, gen, gen->n_blocks, &gen->prefix_digest);
        int32_t block = kv_pool_ref_prefix(&caches->blocks, &key);
        if (block < 0) break;
        gen->slot->blocks[gen->n_blocks++] = block;
        gen->prefix_digest = key;
    }
    gen->n_published = gen->n_blocks;
    gen->n_computed = gen->n_blocks * KV_BLOCK;
}

void publish_blocks(struct engine_caches *caches, ey_generation *gen)
{
    for (; (gen->n_published + 1) * KV_BLOCK <= gen->n_computed; gen->n_published++) {
        gen->prefix_digest = kv_block_key(caches, gen, gen->n_published, &gen->prefix_digest);
        kv_pool_publish(&caches->blocks, gen->slot->blocks[gen->n_published], &gen->prefix_digest);
    }
}
