/* SPDX-License-Identifier: Apache-2.0 */
#include "server/plan_json.h"

void write_plan_item(struct json_writer *w, const ey_plan_item *item)
{
    json_open_object(w);
    json_add_string(w, "name", item->name);
    json_add_string(w, "device", item->device);
    json_add_uint(w, "bytes", item->bytes);
    json_add_string(w, "life", item->lifetime);
    json_close_object(w);
}
