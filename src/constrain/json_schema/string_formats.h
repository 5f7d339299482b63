/* SPDX-License-Identifier: Apache-2.0 */
/* The values of JSON schema's `format`. */
#ifndef EY_CONSTRAIN_STRING_FORMATS_H
#define EY_CONSTRAIN_STRING_FORMATS_H

/* Returns the regular expression that the whole string must match, or NULL for an unknown format.
 */
const char *format_pattern(const char *name);

#endif
