/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the page that the program carries in itself; the build makes the table from
 * src/server/page. */
#ifndef EY_SERVER_PAGE_FILES_H
#define EY_SERVER_PAGE_FILES_H

#include <stddef.h>

struct page_file {
    const char *path; /* "/" is the page itself, then "/app.js" … */
    const char *type; /* Content-Type */
    const unsigned char *bytes;
    size_t n;
    const char *etag; /* with its quotation marks */
};

extern const struct page_file page_files[];
extern const size_t n_page_files;

#endif
