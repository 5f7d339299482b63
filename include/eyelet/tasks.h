/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks: prompts of common questions, and parsers of their answers.
 *
 * The command line and the Python package use these, so that both get the same answers. */
#ifndef EYELET_TASKS_H
#define EYELET_TASKS_H

#include "eyelet/error.h"

EY_BEGIN_DECLS

/* ---- prompts --------------------------------------------------------------------------------- */

/* Static strings. They ask for a sentence about the image, for a detailed description of it, and
 * for all text in it. */
EY_API const char *ey_caption_prompt(void);
EY_API const char *ey_scene_prompt(void);
EY_API const char *ey_read_prompt(void);

/* Makes the prompt that asks where `what` is ("car, person"). The caller frees *prompt (ey_free).
 */
EY_API bool ey_detect_prompt(char **prompt, const char *what, ey_err *err);
/* Returns a static string: a regular expression for ey_grammar_of_regex that matches all answers to
 * that prompt. */
EY_API const char *ey_detect_pattern(void);

/* Makes the prompt that asks for the data that a JSON schema describes, and names its fields. The
 * caller frees *prompt (ey_free). */
EY_API bool ey_extract_prompt(char **prompt, const char *schema, size_t n, ey_err *err);

/* ---- boxes ----------------------------------------------------------------------------------- */

typedef struct {
    double x1, y1, x2, y2; /* 0 to 1000 of the image's width and height; x1 <= x2, y1 <= y2 */
    const char *label;     /* UTF-8 without control characters; "" if the model gave none */
} ey_box;

typedef enum {
    EY_BOXES_FOUND,
    EY_BOXES_NONE,   /* the answer says that there is nothing */
    EY_BOXES_UNCLEAR /* the answer cannot be parsed */
} ey_boxes_result;

typedef struct {
    ey_box *boxes; /* [n] */
    size_t n;
    ey_boxes_result result;
    bool truncated; /* the answer has more than 1000 boxes; the others were not read */
    void *owner;    /* memory of everything above */
} ey_box_list;

/* Reads an answer in the grounding format of Qwen3-VL: objects with "bbox_2d" (or "bbox") and
 * "label" (or "text_content"), in a list or not, in a code fence or not, with prose around them.
 * Objects without a box (such as points) and one that is cut off at the end are left out. Fails
 * only when memory is exhausted. The caller frees the list, also after an error. */
EY_API bool ey_boxes_read(ey_box_list *list, const char *text, size_t n, ey_err *err);
/* Frees what the list holds and makes it empty; accepts an empty one. */
EY_API void ey_boxes_free(ey_box_list *list);
/* Fails if the list, which was read from text[n], is EY_BOXES_UNCLEAR. */
EY_API bool ey_boxes_check(const ey_box_list *list, const char *text, size_t n, ey_err *err);
/* Writes x1, y1, x2, y2 in pixels of an image of this size. */
EY_API void ey_box_to_pixels(const ey_box *box, int width, int height, int pixels[4]);

EY_END_DECLS

#endif
