/* SPDX-License-Identifier: Apache-2.0 */
/* Draws boxes, and labels in a font of 5 x 7 dots with an eighth row for descenders. */
#include "cli/output/draw_boxes.h"

#include <string.h>

#include "base/utf8.h"

enum { FONT_FIRST = 0x20, FONT_LAST = 0x7e, GLYPH_WIDTH = 5, GLYPH_HEIGHT = 8, ADVANCE = 6 };

/* ASCII from space to '~'. Each byte is a column, with the top row in its lowest bit. */
static const uint8_t font[FONT_LAST - FONT_FIRST + 1][GLYPH_WIDTH] = {
    {0x00, 0x00, 0x00, 0x00, 0x00}, {0x00, 0x00, 0x5f, 0x00, 0x00},
    {0x00, 0x07, 0x00, 0x07, 0x00}, /*   ! " */
    {0x14, 0x7f, 0x14, 0x7f, 0x14}, {0x24, 0x2a, 0x7f, 0x2a, 0x12},
    {0x23, 0x13, 0x08, 0x64, 0x62}, /* # $ % */
    {0x36, 0x49, 0x56, 0x20, 0x50}, {0x00, 0x00, 0x07, 0x00, 0x00},
    {0x00, 0x1c, 0x22, 0x41, 0x00}, /* & ' ( */
    {0x00, 0x41, 0x22, 0x1c, 0x00}, {0x2a, 0x1c, 0x7f, 0x1c, 0x2a},
    {0x08, 0x08, 0x3e, 0x08, 0x08}, /* ) * + */
    {0x00, 0x80, 0x70, 0x30, 0x00}, {0x08, 0x08, 0x08, 0x08, 0x08},
    {0x00, 0x60, 0x60, 0x00, 0x00}, /* , - . */
    {0x20, 0x10, 0x08, 0x04, 0x02}, {0x3e, 0x51, 0x49, 0x45, 0x3e},
    {0x00, 0x42, 0x7f, 0x40, 0x00}, /* / 0 1 */
    {0x62, 0x51, 0x49, 0x49, 0x46}, {0x22, 0x41, 0x49, 0x49, 0x36},
    {0x18, 0x14, 0x12, 0x7f, 0x10}, /* 2 3 4 */
    {0x27, 0x45, 0x45, 0x45, 0x39}, {0x3c, 0x4a, 0x49, 0x49, 0x30},
    {0x01, 0x71, 0x09, 0x05, 0x03}, /* 5 6 7 */
    {0x36, 0x49, 0x49, 0x49, 0x36}, {0x06, 0x49, 0x49, 0x29, 0x1e},
    {0x00, 0x36, 0x36, 0x00, 0x00}, /* 8 9 : */
    {0x00, 0x80, 0x76, 0x36, 0x00}, {0x08, 0x14, 0x22, 0x41, 0x00},
    {0x14, 0x14, 0x14, 0x14, 0x14}, /* ; < = */
    {0x00, 0x41, 0x22, 0x14, 0x08}, {0x02, 0x01, 0x51, 0x09, 0x06},
    {0x3e, 0x41, 0x5d, 0x55, 0x1e}, /* > ? @ */
    {0x7e, 0x09, 0x09, 0x09, 0x7e}, {0x7f, 0x49, 0x49, 0x49, 0x36},
    {0x3e, 0x41, 0x41, 0x41, 0x22}, /* A B C */
    {0x7f, 0x41, 0x41, 0x41, 0x3e}, {0x7f, 0x49, 0x49, 0x49, 0x41},
    {0x7f, 0x09, 0x09, 0x09, 0x01}, /* D E F */
    {0x3e, 0x41, 0x49, 0x49, 0x3a}, {0x7f, 0x08, 0x08, 0x08, 0x7f},
    {0x00, 0x41, 0x7f, 0x41, 0x00}, /* G H I */
    {0x20, 0x40, 0x41, 0x3f, 0x01}, {0x7f, 0x08, 0x14, 0x22, 0x41},
    {0x7f, 0x40, 0x40, 0x40, 0x40}, /* J K L */
    {0x7f, 0x02, 0x0c, 0x02, 0x7f}, {0x7f, 0x04, 0x08, 0x10, 0x7f},
    {0x3e, 0x41, 0x41, 0x41, 0x3e}, /* M N O */
    {0x7f, 0x09, 0x09, 0x09, 0x06}, {0x3e, 0x41, 0x51, 0x21, 0x5e},
    {0x7f, 0x09, 0x19, 0x29, 0x46}, /* P Q R */
    {0x26, 0x49, 0x49, 0x49, 0x32}, {0x01, 0x01, 0x7f, 0x01, 0x01},
    {0x3f, 0x40, 0x40, 0x40, 0x3f}, /* S T U */
    {0x1f, 0x20, 0x40, 0x20, 0x1f}, {0x3f, 0x40, 0x38, 0x40, 0x3f},
    {0x63, 0x14, 0x08, 0x14, 0x63}, /* V W X */
    {0x07, 0x08, 0x70, 0x08, 0x07}, {0x61, 0x51, 0x49, 0x45, 0x43},
    {0x00, 0x7f, 0x41, 0x41, 0x00}, /* Y Z [ */
    {0x02, 0x04, 0x08, 0x10, 0x20}, {0x00, 0x41, 0x41, 0x7f, 0x00},
    {0x04, 0x02, 0x01, 0x02, 0x04}, /* \ ] ^ */
    {0x40, 0x40, 0x40, 0x40, 0x40}, {0x00, 0x01, 0x02, 0x04, 0x00},
    {0x20, 0x54, 0x54, 0x54, 0x78}, /* _ ` a */
    {0x7f, 0x48, 0x44, 0x44, 0x38}, {0x38, 0x44, 0x44, 0x44, 0x28},
    {0x38, 0x44, 0x44, 0x48, 0x7f}, /* b c d */
    {0x38, 0x54, 0x54, 0x54, 0x18}, {0x08, 0x7e, 0x09, 0x01, 0x02},
    {0x18, 0xa4, 0xa4, 0xa4, 0x7c}, /* e f g */
    {0x7f, 0x08, 0x04, 0x04, 0x78}, {0x00, 0x44, 0x7d, 0x40, 0x00},
    {0x40, 0x80, 0x84, 0x7d, 0x00}, /* h i j */
    {0x7f, 0x10, 0x28, 0x44, 0x00}, {0x00, 0x41, 0x7f, 0x40, 0x00},
    {0x7c, 0x04, 0x18, 0x04, 0x78}, /* k l m */
    {0x7c, 0x08, 0x04, 0x04, 0x78}, {0x38, 0x44, 0x44, 0x44, 0x38},
    {0xfc, 0x44, 0x44, 0x44, 0x38}, /* n o p */
    {0x38, 0x44, 0x44, 0x44, 0xfc}, {0x7c, 0x08, 0x04, 0x04, 0x08},
    {0x48, 0x54, 0x54, 0x54, 0x20}, /* q r s */
    {0x04, 0x3f, 0x44, 0x40, 0x20}, {0x3c, 0x40, 0x40, 0x20, 0x7c},
    {0x1c, 0x20, 0x40, 0x20, 0x1c}, /* t u v */
    {0x3c, 0x40, 0x30, 0x40, 0x3c}, {0x44, 0x28, 0x10, 0x28, 0x44},
    {0x1c, 0xa0, 0xa0, 0xa0, 0x7c}, /* w x y */
    {0x44, 0x64, 0x54, 0x4c, 0x44}, {0x00, 0x08, 0x36, 0x41, 0x00},
    {0x00, 0x00, 0x7f, 0x00, 0x00},                                 /* z { | */
    {0x00, 0x41, 0x36, 0x08, 0x00}, {0x08, 0x04, 0x08, 0x10, 0x08}, /* } ~ */
};

static const uint8_t black[3] = {0, 0, 0}, white[3] = {255, 255, 255};

/* Colors that most people can tell apart, most easily the adjacent ones. */
static const uint8_t palette[][3] = {
    {230, 25, 75},  {60, 180, 75},  {0, 130, 200}, {255, 225, 25}, {145, 30, 180}, {245, 130, 48},
    {70, 240, 240}, {240, 50, 230}, {128, 128, 0}, {0, 0, 128},    {210, 245, 60}, {170, 110, 40}};
enum { N_COLORS = sizeof(palette) / sizeof(palette[0]) };

/* ---- shapes ---- */

static int clip(int v, int most)
{
    return v < 0 ? 0 : v > most ? most : v;
}

/* Fills a rectangle that excludes column x2 and row y2. */
static void fill_rect(struct image *image, int x1, int y1, int x2, int y2, const uint8_t color[3])
{
    x1 = clip(x1, image->width);
    x2 = clip(x2, image->width);
    y1 = clip(y1, image->height);
    y2 = clip(y2, image->height);
    for (int y = y1; y < y2; y++)
        for (int x = x1; x < x2; x++)
            memcpy(image->rgb + 3 * ((size_t)y * (size_t)image->width + (size_t)x), color, 3);
}

/* Draws lines of width t along the inside of the rectangle's edges. */
static void draw_frame(struct image *image, int x1, int y1, int x2, int y2, int t,
                       const uint8_t color[3])
{
    fill_rect(image, x1, y1, x2, y1 + t, color);
    fill_rect(image, x1, y2 - t, x2, y2, color);
    fill_rect(image, x1, y1, x1 + t, y2, color);
    fill_rect(image, x2 - t, y1, x2, y2, color);
}

/* ---- letters ---- */

/* Returns the glyph of the character at s and writes its length in bytes to *used. */
static const uint8_t *glyph_at(const char *s, size_t n, size_t *used)
{
    uint32_t cp;
    int length = utf8_decode(s, n, &cp);
    *used = length > 0 ? (size_t)length : utf8_bad_length(s, n);
    return font[(length > 0 && cp >= FONT_FIRST && cp <= FONT_LAST ? cp : '?') - FONT_FIRST];
}

static void draw_glyph(struct image *image, int x, int y, int scale, const uint8_t color[3],
                       const uint8_t *glyph)
{
    for (int column = 0; column < GLYPH_WIDTH; column++)
        for (int row = 0; row < GLYPH_HEIGHT; row++)
            if (glyph[column] >> row & 1)
                fill_rect(image, x + column * scale, y + row * scale, x + (column + 1) * scale,
                          y + (row + 1) * scale, color);
}

static void draw_text(struct image *image, int x, int y, int scale, const uint8_t color[3],
                      const char *text, size_t n)
{
    for (size_t i = 0, used; i < n; i += used, x += ADVANCE * scale)
        draw_glyph(image, x, y, scale, color, glyph_at(text + i, n - i, &used));
}

/* Returns how many bytes of the text fit into `most` pixels, and writes their width to *width. */
static size_t fitting_bytes(const char *text, int scale, int most, int *width)
{
    size_t n = strlen(text), i = 0, used;
    for (*width = 0; i < n && *width + GLYPH_WIDTH * scale <= most;
         i += used, *width += ADVANCE * scale)
        glyph_at(text + i, n - i, &used);
    if (i) *width -= (ADVANCE - GLYPH_WIDTH) * scale; /* no gap after the last */
    return i;
}

/* ---- boxes ---- */

/* Line width, and the size of a letter's dot: 1/200 and 1/300 of the smaller side, but at least 2
 * and 1 pixels. */
struct pen {
    int line, scale;
};

static struct pen pen_for(const struct image *image)
{
    int side = image->width < image->height ? image->width : image->height;
    int line = side / 200, scale = side / 300;
    return (struct pen){line < 2 ? 2 : line, scale < 1 ? 1 : scale};
}

static const uint8_t *readable_on(const uint8_t color[3])
{
    return 299 * color[0] + 587 * color[1] + 114 * color[2] > 140 * 1000 ? black : white;
}

/* Draws a box, with a thin outline that keeps it visible on its own color. */
static void draw_box(struct image *image, const struct drawn_box *box, struct pen pen,
                     const uint8_t color[3])
{
    int rim = pen.line > 3 ? pen.line / 3 : 1;
    draw_frame(image, box->x1 - rim, box->y1 - rim, box->x2 + rim, box->y2 + rim, rim,
               readable_on(color));
    draw_frame(image, box->x1, box->y1, box->x2, box->y2, pen.line, color);
}

/* Draws the label on a background of the box's color, above the box or, if there is no space, at
 * the top inside it. Moves the label left so that it ends within the image. */
static void draw_label(struct image *image, const struct drawn_box *box, struct pen pen,
                       const uint8_t color[3])
{
    int margin = 2 * pen.scale, height = GLYPH_HEIGHT * pen.scale + 2 * margin, width;
    size_t n = fitting_bytes(box->label, pen.scale, image->width - 2 * margin, &width);
    int x = box->x1, y = box->y1 - height >= 0 ? box->y1 - height : box->y1;
    if (!n) return; /* there is no label, or the image is narrower than a letter */
    width += 2 * margin;
    if (x + width > image->width) x = image->width - width;
    if (x < 0) x = 0;
    fill_rect(image, x, y, x + width, y + height, color);
    draw_text(image, x + margin, y + margin, pen.scale, readable_on(color), box->label, n);
}

static void choose_colors(struct drawn_box *boxes, size_t n)
{
    size_t n_labels = 0;
    for (size_t i = 0; i < n; i++) {
        size_t same = 0;
        while (strcmp(boxes[same].label, boxes[i].label) != 0)
            same++;
        boxes[i].color = same < i ? boxes[same].color : n_labels++;
    }
}

/* Draws the labels last, so that no line crosses a letter. */
void draw_boxes(struct image *image, struct drawn_box *boxes, size_t n)
{
    struct pen pen = pen_for(image);
    choose_colors(boxes, n);
    for (size_t i = 0; i < n; i++)
        draw_box(image, &boxes[i], pen, palette[boxes[i].color % N_COLORS]);
    for (size_t i = 0; i < n; i++)
        draw_label(image, &boxes[i], pen, palette[boxes[i].color % N_COLORS]);
}
