/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine_fixture.h"

#include "base/file.h"
#include "checkpoint/temp_dir.h"
#include "image/image.h"
#include "models/ckpt_edit.h"

static char dir[300];

enum { MAX_IMAGES = 64 };
static struct {
    int width, height;
    unsigned seed;
    char *bytes;
    size_t n;
} test_images[MAX_IMAGES];
static int n_test_images;

const char *fixture_dir(void)
{
    return dir;
}

int engine_fixture_open(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "%s", temp_dir_make());
    return 0;
}

int engine_fixture_close(void **state)
{
    (void)state;
    for (int i = 0; i < n_test_images; i++)
        free(test_images[i].bytes);
    n_test_images = 0;
    temp_dir_remove(dir);
    return 0;
}

bool engine_try(ey_engine **engine, const char *kind, const char *device, int threads,
                int max_model_len, ey_err *e)
{
    ey_engine_options options = ey_engine_defaults();
    options.model = kind[0] == '/' ? kind : ckpt_make(dir, kind);
    options.device = device;
    options.threads = threads;
    options.max_model_len = max_model_len;
    return ey_engine_open(engine, &options, e);
}

ey_engine *engine_open(const char *kind, const char *device, int threads, int max_model_len)
{
    ey_engine *engine;
    ey_err e;
    if (!engine_try(&engine, kind, device, threads, max_model_len, &e))
        fail_msg("%s on %s: %s", kind, device, e.text);
    return engine;
}

ey_engine *engine_open_with(const char *kind, ey_engine_options options)
{
    ey_engine *engine;
    ey_err e;
    options.model = kind[0] == '/' ? kind : ckpt_make(dir, kind);
    options.size = sizeof(options);
    if (!ey_engine_open(&engine, &options, &e))
        fail_msg("%s on %s: %s", kind, options.device, e.text);
    return engine;
}

/* ---- idle engines ---- */

void assert_at_rest(ey_engine *engine)
{
    ey_stats s = ey_engine_stats(engine);
    int pins = 0, slots = 0;
    pthread_mutex_lock(&engine->scheduler.lock);
    for (int i = 0; i < engine->caches.images.n_blocks; i++)
        pins += engine->caches.images.entry[i].pins;
    for (int i = 0; i < engine->limits.max_num_seqs; i++)
        slots += engine->scheduler.slot[i].in_use;
    bool in_encoder = engine->scheduler.n_encoding > 0;
    pthread_mutex_unlock(&engine->scheduler.lock);
    if (s.running || s.waiting || s.paused || s.kv_blocks_used || pins || slots || in_encoder)
        fail_msg("not at rest: %d running, %d waiting, %d paused, %d blocks, %d images, %d slots%s",
                 s.running, s.waiting, s.paused, s.kv_blocks_used, pins, slots,
                 in_encoder ? ", one in the encoder" : "");
}

void backend_take(ey_engine *engine)
{
    pthread_mutex_lock(&engine->devices.lock);
}

void backend_give_back(ey_engine *engine)
{
    pthread_mutex_unlock(&engine->devices.lock);
}

void engine_set_rows(ey_engine *engine, int rows, int tile)
{
    pthread_mutex_lock(&engine->scheduler.lock);
    last_range(&engine->buffers.ws)->chunk.max_rows = rows;
    engine->buffers.ws.max_rows = tile;
    pthread_mutex_unlock(&engine->scheduler.lock);
}

static void shuffle(int32_t *values, int n, unsigned seed)
{
    for (int i = n - 1; i > 0; i--) {
        seed = seed * 1664525u + 1013904223u;
        int j = (int)((seed >> 8) % (unsigned)(i + 1));
        int32_t t = values[i];
        values[i] = values[j];
        values[j] = t;
    }
}

void engine_shuffle(ey_engine *engine, unsigned seed)
{
    static int32_t block[EY_MAX_CONTEXT / KV_BLOCK];
    int n = 0;
    pthread_mutex_lock(&engine->scheduler.lock);
    image_cache_clear(&engine->caches.images);
    shuffle(engine->caches.images.free_block, engine->caches.images.n_free, seed);
    while ((block[n] = kv_pool_alloc(&engine->caches.blocks)) >= 0)
        n++;
    shuffle(block, n, seed);
    for (int i = 0; i < n; i++)
        kv_pool_unref(&engine->caches.blocks, block[i]);
    pthread_mutex_unlock(&engine->scheduler.lock);
}

void engine_forget(ey_engine *engine)
{
    pthread_mutex_lock(&engine->scheduler.lock);
    kv_pool_clear(&engine->caches.blocks);
    image_cache_clear(&engine->caches.images);
    pthread_mutex_unlock(&engine->scheduler.lock);
}

const struct image_entry *engine_features(ey_engine *engine, const struct digest *image)
{
    const struct image_entry *found = NULL;
    pthread_mutex_lock(&engine->scheduler.lock);
    for (int i = 0; i < engine->caches.images.n_blocks; i++) {
        const struct image_entry *entry = &engine->caches.images.entry[i];
        if (entry->used && entry->ready && memcmp(&entry->key, image, sizeof(*image)) == 0)
            found = entry;
    }
    pthread_mutex_unlock(&engine->scheduler.lock);
    return found;
}

int feature_row(const struct image_entry *entry, int token)
{
    return entry->block[token / FEATURE_BLOCK] * FEATURE_BLOCK + token % FEATURE_BLOCK;
}

/* ---- images ---- */

static void fill(struct image *image, unsigned seed)
{
    uint32_t noise = seed * 2654435761u + 1;
    for (int y = 0; y < image->height; y++)
        for (int x = 0; x < image->width; x++) {
            uint8_t *p = image->rgb + 3 * ((size_t)y * (size_t)image->width + (size_t)x);
            noise = noise * 1664525u + 1013904223u;
            p[0] = (uint8_t)(x * 255 / image->width);
            p[1] = (uint8_t)(y * 255 / image->height);
            p[2] = (uint8_t)((noise >> 24) + ((x / 16 + y / 16 + (int)seed) % 2 ? 90 : 0));
        }
}

ey_part test_image(int width, int height, unsigned seed)
{
    for (int i = 0; i < n_test_images; i++)
        if (test_images[i].width == width && test_images[i].height == height &&
            test_images[i].seed == seed)
            return ey_image_part(test_images[i].bytes, test_images[i].n);
    assert_true(n_test_images < MAX_IMAGES);
    struct image image = {
        .width = width, .height = height, .rgb = malloc((size_t)width * (size_t)height * 3)};
    assert_non_null(image.rgb);
    fill(&image, seed);
    char path[400];
    char *bytes = NULL;
    size_t n = 0;
    ey_err e;
    snprintf(path, sizeof(path), "%s/image.png", dir);
    if (!image_write_png(&image, path, &e) || !file_read(&bytes, &n, path, 1 << 24, &e))
        fail_msg("%s", e.text);
    free(image.rgb);
    test_images[n_test_images].width = width;
    test_images[n_test_images].height = height;
    test_images[n_test_images].seed = seed;
    test_images[n_test_images].bytes = bytes;
    test_images[n_test_images].n = n;
    n_test_images++;
    return ey_image_part(bytes, n);
}

/* ---- questions ---- */

void question_start(struct question *q, int max_tokens)
{
    memset(q, 0, sizeof(*q));
    q->request = ey_request_defaults();
    q->request.no_prefix_cache = true; /* rows must be computed */
    q->request.messages = q->messages;
    q->request.max_tokens = max_tokens;
    q->request.ignore_eos = true;
}

void question_turn(struct question *q, const char *role)
{
    assert_true(q->request.n_messages < MAX_TURNS);
    size_t i = q->request.n_messages++;
    q->messages[i] = (ey_message){.role = role, .parts = q->parts[i]};
}

void question_part(struct question *q, ey_part part)
{
    size_t i = q->request.n_messages - 1;
    assert_true(q->messages[i].n_parts < MAX_TURN_PARTS);
    q->parts[i][q->messages[i].n_parts++] = part;
}

void question_text(struct question *q, const char *text)
{
    question_part(q, ey_text_part(text));
}

void question_simple(struct question *q, int n, const char *text, int max_tokens)
{
    static const int sizes[][2] = {{97, 130}, {200, 64}, {33, 150}, {64, 64}};
    question_start(q, max_tokens);
    question_turn(q, "user");
    for (int i = 0; i < n; i++) {
        question_part(q, test_image(sizes[i % 4][0], sizes[i % 4][1], (unsigned)i));
        if (i + 1 < n) question_text(q, "and");
    }
    question_text(q, text);
}

ey_answer ask(ey_engine *engine, const struct question *q)
{
    ey_answer answer;
    ey_err e;
    if (!ey_ask(engine, &q->request, &answer, &e)) {
        ey_answer_free(&answer);
        fail_msg("%s", e.text);
    }
    return answer;
}

/* ---- outcomes ---- */

struct outcome outcome_of(ey_engine *engine, const struct question *q)
{
    ey_answer answer = ask(engine, q);
    struct outcome o = {.n = answer.n_tokens,
                        .prompt_tokens = answer.prompt_tokens,
                        .image_tokens = answer.image_tokens,
                        .vocabulary = engine->devices.model.text.vocab_size};
    assert_true(o.n <= 256);
    memcpy(o.ids, answer.tokens, (size_t)o.n * sizeof(int));
    o.logits = malloc((size_t)o.vocabulary * sizeof(float));
    o.text = strdup(answer.text);
    assert_true(o.logits && o.text);
    memcpy(o.logits, engine->buffers.host.logits, (size_t)o.vocabulary * sizeof(float));
    ey_answer_free(&answer);
    return o;
}

void outcome_free(struct outcome *o)
{
    free(o->logits);
    free(o->text);
    *o = (struct outcome){0};
}

void assert_same_outcome(const struct outcome *a, const struct outcome *b, const char *what)
{
    bool same = a->n == b->n && a->prompt_tokens == b->prompt_tokens &&
                memcmp(a->ids, b->ids, (size_t)a->n * sizeof(int)) == 0;
    for (int i = 0; i < a->vocabulary; i++) {
        if (memcmp(&a->logits[i], &b->logits[i], sizeof(float)) == 0) continue;
        fail_msg("%s: logit %d is %.9g and %.9g; ids %s", what, i, (double)a->logits[i],
                 (double)b->logits[i], same ? "equal" : "differ");
    }
    if (!same) fail_msg("%s: ids differ (%d and %d)", what, a->n, b->n);
    assert_string_equal(a->text, b->text);
}
