/* SPDX-License-Identifier: Apache-2.0 */
/* The web page's files, embedded in the program. The build makes the table from
 * src/server/page. */
#ifndef EY_SERVER_PAGE_FILES_H
#define EY_SERVER_PAGE_FILES_H

#include <stddef.h>

struct page_file {
    const char *path; /* "/" for index.html, "/app.js" … */
    const char *type; /* Content-Type */
    const unsigned char *bytes;
    size_t n;
    const char *etag; /* including its quotation marks */
};

extern const struct page_file page_files[];
extern const size_t n_page_files;

#endif
