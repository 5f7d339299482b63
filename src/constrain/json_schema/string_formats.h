/* SPDX-License-Identifier: Apache-2.0 */
/* The values of JSON schema's `format`. */
#ifndef EY_CONSTRAIN_STRING_FORMATS_H
#define EY_CONSTRAIN_STRING_FORMATS_H

/* Regular expression of a format, over the whole string; NULL: not known. */
const char *format_pattern(const char *name);

#endif
