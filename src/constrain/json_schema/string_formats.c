/* SPDX-License-Identifier: Apache-2.0 */
/* String formats as regular expressions. Each allows only what every reader accepts: existing
 * dates, times with a zone and without leap seconds, plain names and paths. */
#include "constrain/json_schema/string_formats.h"

#include <string.h>

#define MONTH_DAY                                                                                 \
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[" \
    "1-9]|1\\d|2[0-8]))"
#define LEAP_YEAR "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
#define DATE "(?:\\d{4}-" MONTH_DAY "|" LEAP_YEAR "-02-29)"
#define TIME \
    "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"

/* four labels of at most 62 characters, since a host name has at most 253 */
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,60}[A-Za-z0-9])?"
#define HOST LABEL "(?:\\." LABEL "){0,3}"
#define ATOM "[A-Za-z0-9_%+~#'-]{1,31}"

#define BYTE "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define GROUP "[0-9A-Fa-f]{1,4}"
#define PATH "[A-Za-z0-9._~!$&'()*+,;=:@-]"

static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "T" TIME},
    {"duration", "P(?:\\d{1,4}W|(?:\\d{1,4}Y)?(?:\\d{1,4}M)?\\d{1,4}D(?:T\\d{1,4}H(?:\\d{1,4}M)?(?:"
                 "\\d{1,4}S)?)?|"
                 "\\d{1,4}Y(?:\\d{1,4}M)?|\\d{1,4}M|T(?:\\d{1,4}H(?:\\d{1,4}M(?:\\d{1,4}S)?)?|\\d{"
                 "1,4}M(?:\\d{1,4}S)?|\\d{1,4}S))"},
    {"uuid", "[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"},
    {"email", ATOM "(?:\\." ATOM "){0,1}@" LABEL "(?:\\." LABEL "){1,3}"},
    {"hostname", HOST},
    {"ipv4", BYTE "(?:\\." BYTE "){3}"},
    {"ipv6", "(?:(?:" GROUP ":){7}" GROUP "|(?:" GROUP ":){1,6}:" GROUP "|(?:" GROUP
             ":){1,7}:|::(?:" GROUP "(?::" GROUP "){0,6})?)"},
    {"uri", "[A-Za-z][A-Za-z0-9+.-]{0,15}://" HOST "(?::\\d{1,4})?(?:/" PATH "*)*(?:\\?(?:" PATH
            "|[/?])*)?(?:#(?:" PATH "|[/?])*)?"},
};

const char *format_pattern(const char *name)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        if (strcmp(formats[i].name, name) == 0) return formats[i].pattern;
    return NULL;
}
