/* Pictures of a request → pixels at the size that the model sees. */
#include "engine/pictures.h"

#include <stdio.h>
#include <stdlib.h>

static size_t count_pictures(const ey_request *request)
{
    size_t n = 0;
    for (size_t m = 0; m < request->n_messages; m++)
        for (size_t p = 0; p < request->messages[m].n_parts; p++)
            n += request->messages[m].parts[p].type == EY_PART_IMAGE;
    return n;
}

static uint64_t wanted_pixels(const ey_part *part)
{
    static const uint64_t budget[] = {
        [EY_DETAIL_AUTO] = 1310720, [EY_DETAIL_LOW] = 262144, [EY_DETAIL_HIGH] = 4194304, [EY_DETAIL_NATIVE] = UINT64_MAX};
    return part->max_pixels ? part->max_pixels : budget[part->detail];
}

/* The checkpoint's spec with this part's budget: never more than the checkpoint's, nor than the picture's share of
 * half the context. */
static struct patch_spec spec_for(const ey_engine *engine, const ey_part *part, size_t n_pictures)
{
    struct patch_spec spec = engine->model.patch_spec;
    uint64_t side = (uint64_t)(spec.patch * spec.merge), share = (uint64_t)engine_max_visual(engine) / n_pictures * side * side;
    uint64_t max = wanted_pixels(part);
    if (max > spec.max_pixels) max = spec.max_pixels;
    if (max > share) max = share;
    if (max < side * side) max = side * side;
    spec.max_pixels = max;
    if (spec.min_pixels > max) spec.min_pixels = max;
    return spec;
}

/* Enlarging to the least size may overshoot a budget that is itself near it: then the picture stays small. */
static bool size_within(int *width, int *height, const struct image *original, const struct patch_spec *spec, ey_err *e)
{
    struct patch_spec relaxed = *spec;
    relaxed.min_pixels = (uint64_t)(spec->patch * spec->merge) * (uint64_t)(spec->patch * spec->merge); /* one token */
    if (!image_smart_size(original->width, original->height, spec, width, height, e)) return false;
    return (uint64_t)*width * (uint64_t)*height <= spec->max_pixels ||
           image_smart_size(original->width, original->height, &relaxed, width, height, e);
}

static bool scale_to(struct picture *p, const struct image *original, const struct patch_spec *spec, ey_err *e)
{
    int width, height;
    if (!size_within(&width, &height, original, spec, e)) return false;
    p->rows = height / spec->patch, p->cols = width / spec->patch;
    p->tokens = p->rows / spec->merge * (p->cols / spec->merge);
    return image_resize(&p->pixels, original, width, height, e);
}

static bool open_picture(struct picture *p, ey_image_usage *usage, const ey_engine *engine, const ey_part *part, size_t i, size_t n, ey_err *e)
{
    char name[32];
    struct image original = {0};
    snprintf(name, sizeof(name), n > 1 ? "picture %zu" : "the picture", i + 1);
    if ((unsigned)part->detail > EY_DETAIL_NATIVE) return ey_fail(e, EY_BAD_REQUEST, "%s: there is no detail %d", name, (int)part->detail);
    struct patch_spec spec = spec_for(engine, part, n);
    bool ok = image_decode(&original, part->bytes, part->n_bytes, name, e) &&
              (scale_to(p, &original, &spec, e) || ey_fail_within(e, "%s", name));
    *usage = (ey_image_usage){original.width, original.height, p->pixels.width, p->pixels.height, p->tokens, false};
    image_free(&original);
    return ok;
}

static bool check_visual(const struct pictures *pictures, const ey_engine *engine, ey_err *e)
{
    int total = 0;
    for (size_t i = 0; i < pictures->n; i++) total += pictures->item[i].tokens;
    if (total <= engine_max_visual(engine)) return true;
    return ey_fail(e, EY_TOO_LONG, "%zu picture%s of %d tokens; half of the context of %d is %d: send fewer or use a larger --max-model-len",
                   pictures->n, pictures->n == 1 ? "" : "s", total, engine->max_model_len, engine_max_visual(engine));
}

bool pictures_open(struct pictures *out, ey_image_usage **usage, struct arena *arena, const ey_engine *engine,
                   const ey_request *request, ey_err *e)
{
    size_t n = count_pictures(request), i = 0; /* at most EY_MAX_IMAGES: the prompt was made of them */
    *out = (struct pictures){0};
    out->item = calloc(n + 1, sizeof(*out->item));
    *usage = arena_array(arena, n + 1, sizeof(**usage));
    if (!out->item || !*usage) return ey_fail_memory(e, "pictures", n * sizeof(*out->item));
    out->n = n;
    for (size_t m = 0; m < request->n_messages; m++)
        for (size_t p = 0; p < request->messages[m].n_parts; p++) {
            const ey_part *part = &request->messages[m].parts[p];
            if (part->type != EY_PART_IMAGE) continue;
            if (!open_picture(&out->item[i], &(*usage)[i], engine, part, i, n, e)) return false;
            i++;
        }
    return check_visual(out, engine, e);
}

void pictures_close(struct pictures *pictures)
{
    for (size_t i = 0; pictures->item && i < pictures->n; i++) image_free(&pictures->item[i].pixels);
    free(pictures->item);
    *pictures = (struct pictures){0};
}
