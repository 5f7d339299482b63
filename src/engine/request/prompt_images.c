/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes and scales a request's images to the model's input size. */
#include "engine/request/prompt_images.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/processors.h"

static size_t count_images(const ey_part *parts, size_t n_parts)
{
    size_t n = 0;
    for (size_t i = 0; i < n_parts; i++)
        n += parts[i].type == EY_PART_IMAGE;
    return n;
}

static size_t count_all_images(const ey_request *request)
{
    size_t n = count_images(request->parts, request->n_parts);
    for (size_t m = 0; m < request->n_messages; m++)
        n += count_images(request->messages[m].parts, request->messages[m].n_parts);
    return n;
}

uint64_t detail_pixels(ey_detail detail)
{
    static const uint64_t budget[] = {[EY_DETAIL_AUTO] = 1310720,
                                      [EY_DETAIL_LOW] = 262144,
                                      [EY_DETAIL_HIGH] = 4194304,
                                      [EY_DETAIL_NATIVE] = UINT64_MAX};
    return budget[detail];
}

/* Returns the checkpoint's spec with this part's pixel budget: the least of the part's own, the
 * checkpoint's, the image's share of half the context, and the plan's limit. */
static struct patch_spec patch_spec_for(const ey_engine *engine, const ey_part *part,
                                        size_t n_images)
{
    struct patch_spec spec = engine->devices.model.patch_spec;
    uint64_t side = (uint64_t)(spec.patch * spec.merge),
             max_tokens = (uint64_t)engine->buffers.plan.max_tokens_per_image;
    uint64_t tokens = (uint64_t)engine->buffers.plan.max_image_tokens / n_images,
             max_share = (tokens < max_tokens ? tokens : max_tokens) * side * side;
    uint64_t max = part->max_pixels ? part->max_pixels : detail_pixels(part->detail);
    if (max > spec.max_pixels) max = spec.max_pixels;
    if (max > max_share) max = max_share;
    if (max < side * side) max = side * side;
    spec.max_pixels = max;
    if (part->min_pixels) spec.min_pixels = part->min_pixels;
    if (spec.min_pixels > max) spec.min_pixels = max;
    return spec;
}

/* Keeps the image small if enlarging it to min_pixels would exceed max_pixels. */
static bool size_within_budget(int *width, int *height, const struct image *original,
                               const struct patch_spec *spec, ey_err *e)
{
    struct patch_spec relaxed = *spec;
    relaxed.min_pixels = (uint64_t)(spec->patch * spec->merge) *
                         (uint64_t)(spec->patch * spec->merge); /* one token */
    if (!image_smart_size(original->width, original->height, spec, width, height, e)) return false;
    return (uint64_t)*width * (uint64_t)*height <= spec->max_pixels ||
           image_smart_size(original->width, original->height, &relaxed, width, height, e);
}

/* Returns how many bytes of memory the original's RGB, the intermediate image between the two
 * scaling passes, and the result need together. */
static uint64_t resize_bytes(const struct image *original, int width, int height)
{
    uint64_t from_width = (uint64_t)original->width, from_height = (uint64_t)original->height;
    return 3 * (from_width * from_height + (uint64_t)width * from_height +
                (uint64_t)width * (uint64_t)height);
}

/* Returns resize_bytes() before decoding, when only the original's size is known. */
static uint64_t later_bytes(const void *spec, int width, int height)
{
    const struct image original = {.width = width, .height = height, .rgb = NULL};
    int to_width, to_height;
    if (!size_within_budget(&to_width, &to_height, &original, spec, NULL)) return 0;
    return resize_bytes(&original, to_width, to_height);
}

/* An original of the right size is moved, not copied. */
static bool resize_image(struct prompt_image *p, struct image *original,
                         const struct patch_spec *spec, struct image_budget *budget,
                         const char *name, ey_err *e)
{
    int width, height;
    if (!size_within_budget(&width, &height, original, spec, e))
        return ey_fail_within(e, "%s", name);
    if (!image_budget_hold(budget, resize_bytes(original, width, height), name, e)) return false;
    p->rows = height / spec->patch;
    p->cols = width / spec->patch;
    p->tokens = p->rows / spec->merge * (p->cols / spec->merge);
    if (width == original->width && height == original->height) {
        p->pixels = *original;
        *original = (struct image){0};
        return true;
    }
    if (!compute_turn_take(e)) return false;
    bool ok = image_resize(&p->pixels, original, width, height, e) || ey_fail_within(e, "%s", name);
    compute_turn_give();
    return ok;
}

/* Records two facts in the error: the image's index, and whether the message begins with the
 * image's name, which is missing if the decoder ran out of memory. */
static bool fail_prompt_image(ey_err *e, size_t i, const char *name, bool decoded)
{
    bool named = e && (decoded || e->code != EY_NO_MEMORY);
    return ey_fail_item(e, EY_ITEM_IMAGE, i, named ? name : NULL);
}

/* Charges the memory budget for the original while it exists, then for the scaled pixels. */
static bool prompt_image_open(ey_prompt *prompt, const ey_engine *engine, const ey_request *request,
                              const ey_part *part, size_t i, ey_err *e)
{
    char name[32];
    struct prompt_image *p = &prompt->images[i];
    struct image original = {0};
    struct image_budget budget = {.from = prompt->budget,
                                  .own = request->budget_held + prompt->budget_bytes,
                                  .gone = request->gone,
                                  .user = request->gone_user,
                                  .after = later_bytes};
    snprintf(name, sizeof(name), prompt->n_images > 1 ? "image %zu" : "the image", i + 1);
    if ((unsigned)part->detail > EY_DETAIL_NATIVE) {
        ey_fail(e, EY_BAD_REQUEST, "%s: detail %d is unknown", name, (int)part->detail);
        return ey_fail_item(e, EY_ITEM_IMAGE, i, name);
    }
    struct patch_spec spec = patch_spec_for(engine, part, prompt->n_images);
    budget.context = &spec;
    bool decoded = image_decode_within(&original, part->bytes, part->n_bytes, name, &budget, e);
    bool ok = decoded && resize_image(p, &original, &spec, &budget, name, e);
    prompt->usage[i] = (ey_image_usage){original.width,   original.height, p->pixels.width,
                                        p->pixels.height, p->tokens,       false};
    image_free(&original);
    uint64_t kept_bytes = ok ? (uint64_t)p->pixels.width * (uint64_t)p->pixels.height * 3 : 0;
    if (kept_bytes < budget.held) {
        ey_budget_release(prompt->budget, budget.held - kept_bytes);
        budget.held = kept_bytes;
    }
    prompt->budget_bytes += budget.held;
    if (!ok) return fail_prompt_image(e, i, name, decoded);
    p->digest = part->n_bytes < kept_bytes ? image_file_digest(part->bytes, part->n_bytes,
                                                               p->pixels.width, p->pixels.height)
                                           : image_digest(&p->pixels);
    return true;
}

static bool check_visual_tokens(const ey_prompt *prompt, const ey_engine *engine, ey_err *e)
{
    int total = 0;
    for (size_t i = 0; i < prompt->n_images; i++)
        total += prompt->images[i].tokens;
    if (total <= engine->buffers.plan.max_image_tokens) return true;
    return ey_fail(e, EY_TOO_LONG,
                   "%zu image%s %d tokens; half of the context of %d is %d: send fewer or use a "
                   "larger --max-model-len",
                   prompt->n_images, prompt->n_images == 1 ? " needs" : "s need", total,
                   engine->limits.max_model_len, engine->buffers.plan.max_image_tokens);
}

/* *at is the index of the next image in the prompt; it advances with each image of these parts. */
static bool open_images_of(ey_prompt *prompt, const ey_engine *engine, const ey_request *request,
                           const ey_part *parts, size_t n, size_t *at, ey_err *e)
{
    for (size_t i = 0; i < n; i++)
        if (parts[i].type == EY_PART_IMAGE &&
            !prompt_image_open(prompt, engine, request, &parts[i], (*at)++, e))
            return false;
    return true;
}

bool prompt_images_open(ey_prompt *prompt, const ey_engine *engine, const ey_request *request,
                        ey_err *e)
{
    /* The plan keeps max_images within EY_MAX_IMAGES. */
    size_t n = count_all_images(request), i = 0;
    if (n > (size_t)engine->limits.max_images)
        return ey_fail(e, EY_BAD_REQUEST, "%zu images in one request; at most %d are taken", n,
                       engine->limits.max_images);
    prompt->images = arena_array(&prompt->arena, n + 1, sizeof(*prompt->images));
    prompt->usage = arena_array(&prompt->arena, n + 1, sizeof(*prompt->usage));
    if (!prompt->images || !prompt->usage)
        return ey_fail_memory(e, "images", n * sizeof(*prompt->images));
    prompt->n_images = n;
    if (!open_images_of(prompt, engine, request, request->parts, request->n_parts, &i, e))
        return false;
    for (size_t m = 0; m < request->n_messages; m++)
        if (!open_images_of(prompt, engine, request, request->messages[m].parts,
                            request->messages[m].n_parts, &i, e))
            return false;
    return check_visual_tokens(prompt, engine, e);
}
