/* SPDX-License-Identifier: Apache-2.0 */
/* Works around libheif before 1.18, which rejects a whole file if one auxiliary image, thumbnail or
 * metadata block refers to several items or to a non-image. Every iPhone photo since iOS 18 has
 * such references. The references are rewritten in a copy. Item data is located by file offsets, so
 * nothing may move: the "meta" box with the references becomes free space, and a new one is
 * appended. */
#include "image/codecs/heif_refs.h"

#include <stdlib.h>
#include <string.h>

enum {
    HEADER_BYTES = 8, /* size and type */
    FULL_BYTES = 4,   /* version and flags of a "full" box */
    /* A file with more bytes of references is left unchanged; an iPhone photo has 200. */
    MAX_REFERENCE_BYTES = 1 << 18,
    /* Each referenced item may become a reference: 4 bytes become 18, or 2 become 14. */
    MOST_GROWTH = 7,
    /* Nesting of derived images; a grid in an overlay has two levels. */
    MAX_DERIVATION = 8,
    ID_BITS = 16,
};

/* Reference and box types as comparable numbers. */
#define TYPE(a, b, c, d) ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (d))
#define TYPE_META TYPE('m', 'e', 't', 'a')
#define TYPE_PITM TYPE('p', 'i', 't', 'm')
#define TYPE_IREF TYPE('i', 'r', 'e', 'f')
#define TYPE_DIMG TYPE('d', 'i', 'm', 'g') /* from a derived image to its inputs */
#define TYPE_AUXL TYPE('a', 'u', 'x', 'l') /* from alpha, depth or a gain map to its image */
#define TYPE_CDSC TYPE('c', 'd', 's', 'c') /* from metadata to the item that it describes */
#define TYPE_THMB TYPE('t', 'h', 'm', 'b') /* from a thumbnail to its image */
#define TYPE_PREM TYPE('p', 'r', 'e', 'm') /* from a premultiplied image to its alpha */

struct heif_box {
    const uint8_t *start, *body, *end;
    uint32_t type;
};

static uint64_t number_at(const uint8_t *p, size_t size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value = value << 8 | p[i];
    return value;
}

static size_t body_size(const struct heif_box *box)
{
    return (size_t)(box->end - box->body);
}

/* Reads the box at `at`. Returns false unless all of it lies within at..end. */
static bool read_heif_box(struct heif_box *box, const uint8_t *at, const uint8_t *end)
{
    size_t left = (size_t)(end - at), header = HEADER_BYTES;
    if (left < header) return false;
    uint64_t size = number_at(at, 4);
    if (size == 1) { /* a 64-bit size follows */
        header += 8;
        if (left < header) return false;
        size = number_at(at + HEADER_BYTES, 8);
    }
    if (size == 0) size = left; /* extends to the end */
    if (size < header || size > left) return false;
    *box = (struct heif_box){at, at + header, at + (size_t)size, (uint32_t)number_at(at + 4, 4)};
    return true;
}

static bool find_heif_box(struct heif_box *found, const uint8_t *at, const uint8_t *end,
                          uint32_t type)
{
    for (; read_heif_box(found, at, end); at = found->end)
        if (found->type == type) return true;
    return false;
}

struct reference {
    uint32_t type, from;
    size_t n;
    const uint8_t *items;
};

struct references {
    struct heif_box meta, box;
    size_t id_bytes;
    uint32_t primary;
    uint8_t needed[1 << (ID_BITS - 3)]; /* bitmap; items with the same low 16 bits share a bit */
};

static uint32_t item_of(const struct references *refs, const struct reference *r, size_t i)
{
    return (uint32_t)number_at(r->items + i * refs->id_bytes, refs->id_bytes);
}

/* Reads the reference at *at and advances. Returns false at the end or if it is damaged. */
static bool next_reference(struct reference *r, const struct references *refs, const uint8_t **at)
{
    struct heif_box box;
    size_t head = refs->id_bytes + 2;
    if (!read_heif_box(&box, *at, refs->box.end) || body_size(&box) < head) return false;
    *r = (struct reference){box.type, (uint32_t)number_at(box.body, refs->id_bytes),
                            (size_t)number_at(box.body + refs->id_bytes, 2), box.body + head};
    if (r->n > (body_size(&box) - head) / refs->id_bytes) return false;
    *at = box.end;
    return true;
}

static const uint8_t *first_reference(const struct references *refs)
{
    return refs->box.body + FULL_BYTES;
}

/* Whether the box holds only complete references. */
static bool references_are_whole(const struct references *refs)
{
    struct reference r;
    const uint8_t *at = first_reference(refs);
    while (next_reference(&r, refs, &at))
        continue;
    return at == refs->box.end;
}

/* Returns false if there are no references, or if the file is to be left unchanged. */
static bool find_references(struct references *refs, const struct image_file *f)
{
    struct heif_box pitm, other;
    const uint8_t *end = f->bytes + f->n;
    if (!find_heif_box(&refs->meta, f->bytes, end, TYPE_META) ||
        find_heif_box(&other, refs->meta.end, end, TYPE_META) ||
        body_size(&refs->meta) < FULL_BYTES)
        return false;
    const uint8_t *children = refs->meta.body + FULL_BYTES;
    if (!find_heif_box(&pitm, children, refs->meta.end, TYPE_PITM) ||
        !find_heif_box(&refs->box, children, refs->meta.end, TYPE_IREF) ||
        body_size(&refs->box) < FULL_BYTES || body_size(&refs->box) > MAX_REFERENCE_BYTES)
        return false;
    size_t primary_bytes = body_size(&pitm) && pitm.body[0] ? 4 : 2;
    if (body_size(&pitm) < FULL_BYTES + primary_bytes) return false;
    refs->primary = (uint32_t)number_at(pitm.body + FULL_BYTES, primary_bytes);
    refs->id_bytes = refs->box.body[0] ? 4 : 2;
    return references_are_whole(refs);
}

static bool is_needed(const struct references *refs, uint32_t item)
{
    return refs->needed[(uint16_t)item / 8] >> (item % 8) & 1;
}

/* Marks an item. Returns whether it was new. */
static bool mark_needed(struct references *refs, uint32_t item)
{
    if (is_needed(refs, item)) return false;
    refs->needed[(uint16_t)item / 8] |= (uint8_t)(1 << (item % 8));
    return true;
}

/* Marks the primary image and, recursively, its inputs. */
static void find_needed(struct references *refs)
{
    bool grew = mark_needed(refs, refs->primary);
    for (int depth = 0; grew && depth < MAX_DERIVATION; depth++) {
        struct reference r;
        grew = false;
        for (const uint8_t *at = first_reference(refs); next_reference(&r, refs, &at);) {
            if (r.type != TYPE_DIMG || !is_needed(refs, r.from)) continue;
            for (size_t i = 0; i < r.n; i++)
                grew |= mark_needed(refs, item_of(refs, &r, i));
        }
    }
}

static bool is_premultiplied(const struct references *refs)
{
    struct reference r;
    for (const uint8_t *at = first_reference(refs); next_reference(&r, refs, &at);)
        if (r.type == TYPE_PREM && r.from == refs->primary && r.n > 0) return true;
    return false;
}

/* Whether old versions of libheif accept the reference: from one item to one image. */
static bool is_plain(const struct references *refs, const struct reference *r)
{
    if (r->type != TYPE_AUXL && r->type != TYPE_CDSC && r->type != TYPE_THMB &&
        r->type != TYPE_PREM)
        return true;
    return r->n == 1 && is_needed(refs, r->type == TYPE_PREM ? r->from : item_of(refs, r, 0));
}

static bool all_plain(const struct references *refs)
{
    struct reference r;
    for (const uint8_t *at = first_reference(refs); next_reference(&r, refs, &at);)
        if (!is_plain(refs, &r)) return false;
    return true;
}

static void add_big_endian(struct buf *b, uint64_t value, size_t size)
{
    for (size_t shift = 8 * size; shift > 0; shift -= 8) {
        char byte = (char)(value >> (shift - 8));
        buf_add(b, &byte, 1);
    }
}

static void add_range(struct buf *b, const uint8_t *start, const uint8_t *end)
{
    buf_add(b, start, (size_t)(end - start));
}

/* Copies the needed parts of a reference. A reference from a derived image is copied whole. A
 * reference from an auxiliary image, such as alpha, becomes one for each needed image. */
static void add_reference(struct buf *b, const struct references *refs, const struct reference *r)
{
    size_t head = HEADER_BYTES + refs->id_bytes + 2;
    if (r->type == TYPE_DIMG && r->n > 0) {
        add_big_endian(b, head + r->n * refs->id_bytes, 4);
        add_big_endian(b, r->type, 4);
        add_big_endian(b, r->from, refs->id_bytes);
        add_big_endian(b, r->n, 2);
        add_range(b, r->items, r->items + r->n * refs->id_bytes);
    }
    if (r->type != TYPE_AUXL) return;
    for (size_t i = 0; i < r->n; i++) {
        uint32_t item = item_of(refs, r, i);
        if (!is_needed(refs, item) || item == r->from) continue;
        add_big_endian(b, head + refs->id_bytes, 4);
        add_big_endian(b, r->type, 4);
        add_big_endian(b, r->from, refs->id_bytes);
        add_big_endian(b, 1, 2);
        add_big_endian(b, item, refs->id_bytes);
    }
}

/* Writes the size of the box that began at `start` into its header. */
static void set_box_size(struct buf *b, size_t start)
{
    if (b->failed) return;
    size_t size = b->size - start;
    for (size_t i = 0; i < 4; i++)
        b->data[start + i] = (char)(size >> (24 - 8 * i));
}

static void add_references(struct buf *b, const struct references *refs)
{
    struct reference r;
    size_t start = b->size;
    add_big_endian(b, 0, 4);
    add_big_endian(b, TYPE_IREF, 4);
    add_range(b, refs->box.body, first_reference(refs));
    for (const uint8_t *at = first_reference(refs); next_reference(&r, refs, &at);)
        add_reference(b, refs, &r);
    set_box_size(b, start);
}

static void add_meta(struct buf *b, const struct references *refs)
{
    size_t start = b->size;
    add_big_endian(b, 0, 4);
    add_big_endian(b, TYPE_META, 4);
    add_range(b, refs->meta.body, refs->box.start);
    add_references(b, refs);
    add_range(b, refs->box.end, refs->meta.end);
    set_box_size(b, start);
}

/* Copies the file's boxes, gives the last one an explicit size, and turns the old meta box into
 * free space. */
static void add_boxes(struct buf *b, const struct references *refs, const struct image_file *f)
{
    struct heif_box box;
    const uint8_t *end = f->bytes + f->n;
    for (const uint8_t *at = f->bytes; read_heif_box(&box, at, end); at = box.end) {
        size_t start = b->size;
        add_range(b, box.start, box.end);
        if (number_at(box.start, 4) == 0) set_box_size(b, start);
        if (box.start == refs->meta.start && !b->failed) memcpy(b->data + start + 4, "free", 4);
    }
}

static bool rewrite_file(struct heif_source *out, const struct references *refs,
                         const struct image_file *f, ey_err *e)
{
    size_t most = f->n + body_size(&refs->meta) + 2 * HEADER_BYTES +
                  MOST_GROWTH * body_size(&refs->box);
    if (!image_budget_hold(f->budget, most, f->name, e)) return false;
    struct buf *b = &out->rewritten;
    *b = buf_with_max(most);
    buf_reserve(b, f->n + body_size(&refs->meta));
    add_boxes(b, refs, f);
    add_meta(b, refs);
    if (b->failed) return ey_fail_memory(e, "a HEIF file's references", most);
    out->bytes = (const uint8_t *)b->data;
    out->n = b->size;
    return true;
}

bool heif_read_references(struct heif_source *out, const struct image_file *f, ey_err *e)
{
    struct references refs = {0};
    *out = (struct heif_source){.bytes = f->bytes, .n = f->n};
    if (!find_references(&refs, f)) return true;
    find_needed(&refs);
    out->premultiplied = is_premultiplied(&refs);
    return all_plain(&refs) || rewrite_file(out, &refs, f, e);
}
